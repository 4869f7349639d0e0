//! Puts pods where a sketch wants them, as far as they may go there.

use crate::solve::attempt::Verdict;
use crate::solve::problem::Problem;
use crate::solve::sketch::Home;
use crate::solve::state::State;

/// Places pods on the nodes and claims that are wanted for them; returns those that may not go there.
pub(super) fn settle(problem: &mut Problem<'_>, state: &mut State, homes: &[(u32, Home)]) -> Vec<u32> {
    let mut claims = Vec::new();
    let mut left = Vec::new();
    for (pod, home) in homes {
        let class = problem.classes.of_pod[*pod as usize];
        let is_placed = match home {
            Home::Node(node) => {
                let node = *node as usize;
                let takes = matches!(state.node_takes(problem, class, 0, node), Verdict::Yes(()));
                if takes {
                    state.put_on_node(problem, class, *pod, node);
                }
                takes
            }
            Home::New(number) => {
                let number = *number as usize;
                claims.resize(claims.len().max(number + 1), None);
                match claims[number] {
                    None => {
                        claims[number] = state.open_for(problem, class, *pod);
                        claims[number].is_some()
                    }
                    Some(claim) => match state.claim_takes(problem, class, 0, claim) {
                        Verdict::Yes(narrowed) => {
                            state.put_on_claim(problem, class, *pod, claim, narrowed);
                            true
                        }
                        _ => false,
                    },
                }
            }
        };
        if !is_placed {
            left.push(*pod);
        }
    }
    left
}
