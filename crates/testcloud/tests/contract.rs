//! The test cloud keeps the contract of all clouds.

mod bench;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bench::Bench;
use headstart_cloud::Cloud;
use headstart_cloud::contract::{self, Call, Can, Cannot, Harness};
use headstart_cloud::port::{ClassRef, OfferingKey, ProviderId};
use headstart_testcloud::delay::Delay;
use headstart_testcloud::fault::Order;
use headstart_testcloud::settings::{self, Pattern};

struct OnBench(Bench);

fn exactly(offering: &OfferingKey) -> Pattern {
    Pattern {
        instance_type: Some(offering.instance_type.clone()),
        zone: Some(offering.zone.clone()),
        capacity_type: Some(offering.capacity_type.clone()),
    }
}

impl OnBench {
    async fn order(&self, order: Order) -> Can {
        self.0.order(order).await;
        Ok(())
    }
}

#[async_trait]
impl Harness for OnBench {
    fn cloud(&self) -> Arc<dyn Cloud> {
        self.0.cloud()
    }

    fn class(&self) -> ClassRef {
        bench::class()
    }

    fn offerings(&self) -> Vec<OfferingKey> {
        bench::offerings()
    }

    fn run(&self) -> String {
        "test".into()
    }

    async fn settle(&self) {
        self.0.settle().await;
    }

    async fn dry(&self, offering: &OfferingKey, lasts: Option<Duration>) -> Can {
        self.order(Order::Dry { which: exactly(offering), lasts }).await
    }

    async fn wet(&self, offering: &OfferingKey) -> Can {
        self.order(Order::Wet { which: exactly(offering) }).await
    }

    async fn advance(&self, by: Duration) -> Can {
        self.0.advance(by).await;
        Ok(())
    }

    async fn unready_class(&self) -> Can<ClassRef> {
        let class = ClassRef { name: "unready".into(), ..bench::class() };
        self.order(Order::Unready { class: class.name.clone(), message: "not yet".into() }).await?;
        Ok(class)
    }

    async fn missing_class(&self) -> Can<ClassRef> {
        Err(Cannot("classes are objects of the cluster, which the test cloud does not look at"))
    }

    async fn slow_ending(&self, delay: Duration) -> Can {
        self.order(Order::EndDelay { delay: Delay::Fixed(delay) }).await
    }

    async fn lose_answer(&self, call: Call) -> Can {
        let call = match call {
            Call::Launch => settings::Call::Launch,
            Call::Terminate => settings::Call::Terminate,
        };
        self.order(Order::LoseAnswers { count: 1, call: Some(call) }).await
    }

    async fn fail(&self) -> Can {
        self.order(Order::Fail { count: 1, call: None }).await
    }

    async fn deny(&self) -> Can {
        self.order(Order::Deny { count: 1, call: None }).await
    }

    async fn throttle(&self) -> Can {
        self.order(Order::Throttle { per_second: 0.5, burst: 1, call: None }).await
    }

    async fn unthrottle(&self) -> Can {
        self.order(Order::Throttle { per_second: 0.0, burst: 1, call: None }).await
    }

    async fn interrupt(&self, id: &ProviderId, left: Duration) -> Can {
        self.order(Order::Interrupt { id: id.0.clone(), left }).await
    }

    async fn kill(&self, id: &ProviderId) -> Can {
        self.order(Order::Kill { id: id.0.clone() }).await
    }

    fn remembers_ended(&self) -> Can {
        Ok(())
    }

    async fn restart(&self) -> Can {
        self.0.crash().await;
        self.0.start().await;
        Ok(())
    }
}

#[tokio::test]
async fn the_test_cloud_keeps_the_contract() {
    let report = contract::run(&OnBench(Bench::new().await)).await;
    report.assert(&["a class that does not exist is no capacity"]);
}
