//! How another autoscaler is led.

use clap::{Args, ValueEnum};
use headstart_engine::settings::{Leading, With};

use crate::error::OperatorError;

/// How another autoscaler is led.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Companion")]
pub(crate) struct Company {
    /// What shows another autoscaler that pods are expected
    #[arg(long, env = "COMPANION_WITH", value_enum, value_name = "OBJECTS", default_value = "auto")]
    pub(crate) companion_with: WithChoice,
    /// The namespace of placeholder pods and buffers, which is made if it is not there
    #[arg(long, env, value_name = "NAMESPACE", default_value = "headstart-placeholders")]
    pub(crate) placeholder_namespace: String,
    /// The priority of placeholder pods; below -10 Cluster Autoscaler does not look at them
    #[arg(long, env, value_name = "NUMBER", default_value_t = -10, allow_negative_numbers = true)]
    pub(crate) placeholder_priority: i32,
    /// The image of placeholder pods; it should do nothing
    #[arg(long, env, value_name = "IMAGE", default_value = "registry.k8s.io/pause:3.10")]
    pub(crate) placeholder_image: String,
}

/// What shows another autoscaler that pods are expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WithChoice {
    /// CapacityBuffers where the autoscaler looks after them, else placeholder pods
    Auto,
    /// CapacityBuffers
    Buffers,
    /// Placeholder pods, which give way to all others
    Placeholders,
}

impl Company {
    pub(crate) fn settings(&self) -> Result<Leading, OperatorError> {
        let Self { companion_with, placeholder_namespace, placeholder_priority, placeholder_image } = self;
        if *placeholder_priority >= 0 {
            // Pods without a class have priority 0, and nothing gives way to its equals.
            return Err(OperatorError::Option(format!(
                "PLACEHOLDER_PRIORITY (--placeholder-priority) must be below 0, or placeholders would not give way: \
                 {placeholder_priority}"
            )));
        }
        Ok(Leading {
            with: match companion_with {
                WithChoice::Auto => With::Auto,
                WithChoice::Buffers => With::Buffers,
                WithChoice::Placeholders => With::Placeholders,
            },
            namespace: placeholder_namespace.clone(),
            priority: *placeholder_priority,
            image: placeholder_image.clone(),
        })
    }
}
