//! The decisions of one run, and the next run's.

use crate::kernel::TaskId;

/// What decides, and what it decided.
#[derive(Default)]
pub struct Decider {
    pub prefix: Vec<usize>,
    /// Decisions and of how many.
    pub taken: Vec<(usize, usize)>,
    pub current: Option<TaskId>,
    pub switches_left: usize,
    pub standstills_left: usize,
}

impl Decider {
    /// Who of those that wait goes on, and whether the machine stands still before.
    pub fn decide(&mut self, waiting: &[TaskId]) -> (TaskId, bool) {
        let mut options = Vec::new();
        match self.current.filter(|task| waiting.contains(task)) {
            // Who has ended gives way for nothing.
            None => options.extend_from_slice(waiting),
            Some(current) => {
                options.push(current);
                if self.switches_left > 0 {
                    options.extend(waiting.iter().copied().filter(|task| *task != current));
                }
            }
        }
        // Who stands still matters where another goes on: a lone worker's standstill is a crash point's business.
        let others = options.len().saturating_sub(1);
        let giving_way = self.current.is_some_and(|current| waiting.contains(&current));
        let count = options.len()
            + if giving_way && self.standstills_left > 0 {
                others
            } else {
                0
            };
        let chosen = self.prefix.get(self.taken.len()).copied().unwrap_or(0);
        self.taken.push((chosen, count));
        let stands_still = chosen >= options.len();
        let task = options[if stands_still { chosen - others } else { chosen }];
        if self
            .current
            .is_some_and(|current| current != task && waiting.contains(&current))
        {
            self.switches_left -= 1;
        }
        if stands_still {
            self.standstills_left -= 1;
        }
        self.current = Some(task);
        (task, stands_still)
    }

    /// The next list of decisions, depth first; `None` where all are done.
    pub fn next(&self) -> Option<Vec<usize>> {
        let at = self.taken.iter().rposition(|(chosen, count)| chosen + 1 < *count)?;
        let mut prefix: Vec<usize> = self.taken[..=at].iter().map(|(chosen, _)| *chosen).collect();
        prefix[at] += 1;
        Some(prefix)
    }
}
