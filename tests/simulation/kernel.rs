//! Virtual time and the tasks that live in it: a discrete event simulation on one thread.
//!
//! Every await of the code under test ends in a [`Kernel::sleep_until`]; the kernel wakes the earliest sleeper, moves
//! time to it and polls its task. A task may die at any of its awaits: it is dropped where it stands, as an isolate
//! that is evicted drops all it was doing.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// How often tasks are dropped that were started by the dropping of others; once is what it takes today.
const ENDINGS_MAX: usize = 8;

/// Names a task.
pub type TaskId = u64;
type Work = Pin<Box<dyn Future<Output = ()>>>;

struct Task {
    work: Option<Work>,
    /// Whose death ends it; 0 for what belongs to the world itself.
    group: u64,
    /// At how many more suspended polls it dies.
    dies_in: Option<u32>,
    /// What the world does when it is dead.
    on_death: Option<Box<dyn FnOnce()>>,
    ready: Arc<Ready>,
}

struct Ready(AtomicBool);

impl Wake for Ready {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

struct Sleeper {
    waker: Waker,
    fired: Rc<Cell<bool>>,
    task: TaskId,
}

/// Which of several sleepers wakes: one number for each, their task. By default the earliest.
pub type Scheduler = Box<dyn FnMut(&[TaskId]) -> usize>;

/// Time, tasks and sleepers of one run.
#[derive(Default)]
pub struct Kernel {
    now: Cell<i64>,
    order: Cell<u64>,
    tasks: RefCell<BTreeMap<TaskId, Task>>,
    heap: RefCell<BinaryHeap<Reverse<(i64, u64)>>>,
    sleepers: RefCell<BTreeMap<u64, Sleeper>>,
    running: Cell<TaskId>,
    steps: Cell<u64>,
    scheduler: RefCell<Option<Scheduler>>,
}

impl Kernel {
    pub fn starting_at(now: i64) -> Rc<Self> {
        let kernel = Self::default();
        kernel.now.set(now);
        Rc::new(kernel)
    }

    /// Milliseconds since 1970: the true time, which no instance knows exactly.
    pub fn now(&self) -> i64 {
        self.now.get()
    }

    /// Polls so far.
    pub fn steps(&self) -> u64 {
        self.steps.get()
    }

    /// The task that is being polled.
    pub fn current(&self) -> TaskId {
        self.running.get()
    }

    /// Replaces the rule that says who wakes next.
    pub fn schedule_by(&self, scheduler: Option<Scheduler>) {
        self.scheduler.replace(scheduler);
    }

    fn fresh(&self) -> u64 {
        self.order.set(self.order.get() + 1);
        self.order.get()
    }

    /// Starts a task; its first poll comes before anything else at this time.
    pub fn spawn(self: &Rc<Self>, group: u64, work: impl Future<Output = ()> + 'static) -> TaskId {
        self.spawn_mortal(group, None, None, work)
    }

    /// Starts a task that dies at its `dies_in`-th suspended poll (from 1), or with its group.
    pub fn spawn_mortal(
        self: &Rc<Self>,
        group: u64,
        dies_in: Option<u32>,
        on_death: Option<Box<dyn FnOnce()>>,
        work: impl Future<Output = ()> + 'static,
    ) -> TaskId {
        let id = self.fresh();
        let task = Task {
            work: Some(Box::pin(work)),
            group,
            dies_in,
            on_death,
            ready: Arc::new(Ready(AtomicBool::new(true))),
        };
        self.tasks.borrow_mut().insert(id, task);
        let now = self.now();
        self.wake_at(now, id);
        id
    }

    /// Puts a bare wake-up of a task into the heap.
    fn wake_at(&self, at: i64, task: TaskId) {
        let waker = match self.tasks.borrow().get(&task) {
            Some(task) => Waker::from(Arc::clone(&task.ready)),
            None => return,
        };
        self.add_sleeper(at, task, waker, Rc::default());
    }

    fn add_sleeper(&self, at: i64, task: TaskId, waker: Waker, fired: Rc<Cell<bool>>) {
        let id = self.fresh();
        self.sleepers.borrow_mut().insert(id, Sleeper { waker, fired, task });
        self.heap.borrow_mut().push(Reverse((at, id)));
    }

    /// Sleeps until the true time `at`; always suspends once, even where `at` is past.
    pub fn sleep_until(self: &Rc<Self>, at: i64) -> Sleep {
        Sleep {
            kernel: Rc::clone(self),
            at: at.max(self.now()),
            fired: None,
        }
    }

    /// Sleeps so many milliseconds.
    pub fn sleep(self: &Rc<Self>, ms: i64) -> Sleep {
        self.sleep_until(self.now().saturating_add(ms.max(0)))
    }

    /// Kills every task of a group.
    pub fn kill_group(self: &Rc<Self>, group: u64) {
        let victims: Vec<TaskId> = self
            .tasks
            .borrow()
            .iter()
            .filter(|(_, task)| task.group == group)
            .map(|(id, _)| *id)
            .collect();
        for id in victims {
            self.kill(id);
        }
    }

    /// Kills a task where it stands. The one that runs dies at its next suspension.
    pub fn kill(self: &Rc<Self>, id: TaskId) {
        if id == self.running.get() {
            if let Some(task) = self.tasks.borrow_mut().get_mut(&id) {
                task.dies_in = Some(1);
            }
            return;
        }
        let task = self.tasks.borrow_mut().remove(&id);
        if let Some(mut task) = task {
            drop(task.work.take());
            if let Some(on_death) = task.on_death.take() {
                on_death();
            }
        }
    }

    /// When the next sleeper wakes.
    pub fn next_at(&self) -> Option<i64> {
        let mut heap = self.heap.borrow_mut();
        let mut sleepers = self.sleepers.borrow_mut();
        let tasks = self.tasks.borrow();
        while let Some(Reverse((at, id))) = heap.peek() {
            if sleepers
                .get(id)
                .is_some_and(|sleeper| tasks.contains_key(&sleeper.task))
            {
                return Some(*at);
            }
            // The sleeper's task is dead: it must not be mistaken for something that happens at this time.
            sleepers.remove(id);
            heap.pop();
        }
        None
    }

    /// Drops whatever still waits. Tasks hold the world and the world holds them: without this, no run would ever be
    /// forgotten, and a million of them would fill the memory.
    pub fn end(&self) {
        for _ in 0..ENDINGS_MAX {
            // Some start another task when they are dropped.
            let tasks = self.tasks.take();
            self.sleepers.take();
            self.heap.take();
            if tasks.is_empty() {
                return;
            }
        }
    }

    /// Moves time without waking anybody, where nobody would have woken before.
    pub fn skip_to(&self, at: i64) {
        let at = self.next_at().map_or(at, |next| at.min(next));
        self.now.set(self.now().max(at));
    }

    /// Moves time although somebody would have woken before, who then wakes late: as if all of this machine had stood
    /// still.
    pub fn stand_still(&self, ms: i64) {
        self.now.set(self.now().saturating_add(ms));
    }

    /// The tasks that are not the world's own.
    pub fn mortals(&self) -> Vec<TaskId> {
        let tasks = self.tasks.borrow();
        tasks
            .iter()
            .filter(|(_, task)| task.group != 0)
            .map(|(id, _)| *id)
            .collect()
    }

    /// Wakes one sleeper and polls its task. `false` where nobody sleeps.
    pub fn step(self: &Rc<Self>) -> bool {
        let Some((at, sleeper)) = self.pop() else {
            return false;
        };
        self.now.set(self.now().max(at));
        sleeper.fired.set(true);
        sleeper.waker.wake();
        self.poll(sleeper.task);
        true
    }

    fn pop(&self) -> Option<(i64, Sleeper)> {
        let mut heap = self.heap.borrow_mut();
        let mut sleepers = self.sleepers.borrow_mut();
        // Those whose task is gone are gone too.
        let tasks = self.tasks.borrow();
        if let Some(scheduler) = self.scheduler.borrow_mut().as_mut() {
            let mut waiting: Vec<(i64, u64)> = heap.drain().map(|Reverse(entry)| entry).collect();
            waiting.retain(|(_, id)| {
                sleepers
                    .get(id)
                    .is_some_and(|sleeper| tasks.contains_key(&sleeper.task))
            });
            waiting.sort_unstable();
            // Of each task, its first sleeper.
            let mut firsts: Vec<(i64, u64)> = Vec::new();
            let mut seen: Vec<TaskId> = Vec::new();
            for entry in &waiting {
                let task = sleepers[&entry.1].task;
                if !seen.contains(&task) {
                    seen.push(task);
                    firsts.push(*entry);
                }
            }
            let chosen = (!firsts.is_empty()).then(|| firsts[scheduler(&seen).min(firsts.len() - 1)]);
            heap.extend(waiting.into_iter().filter(|entry| Some(*entry) != chosen).map(Reverse));
            let (at, id) = chosen?;
            return sleepers.remove(&id).map(|sleeper| (at, sleeper));
        }
        loop {
            let Reverse((at, id)) = heap.pop()?;
            let Some(sleeper) = sleepers.remove(&id) else { continue };
            if tasks.contains_key(&sleeper.task) {
                return Some((at, sleeper));
            }
        }
    }

    fn poll(self: &Rc<Self>, id: TaskId) {
        let (work, ready) = match self.tasks.borrow_mut().get_mut(&id) {
            Some(task) => (task.work.take(), Arc::clone(&task.ready)),
            None => return,
        };
        let Some(mut work) = work else { return };
        if !ready.0.swap(false, Ordering::Relaxed) {
            if let Some(task) = self.tasks.borrow_mut().get_mut(&id) {
                task.work = Some(work);
            }
            return;
        }
        self.steps.set(self.steps.get() + 1);
        let before = self.running.replace(id);
        let waker = Waker::from(ready);
        let outcome = work.as_mut().poll(&mut Context::from_waker(&waker));
        self.running.set(before);
        let mut tasks = self.tasks.borrow_mut();
        let Some(task) = tasks.get_mut(&id) else { return };
        let dies = match (&outcome, &mut task.dies_in) {
            (Poll::Ready(()), _) => {
                tasks.remove(&id);
                return;
            }
            (Poll::Pending, Some(left)) => {
                *left = left.saturating_sub(1);
                *left == 0
            }
            (Poll::Pending, None) => false,
        };
        task.work = Some(work);
        drop(tasks);
        if dies {
            self.kill(id);
        }
    }
}

/// A wait for a true time.
pub struct Sleep {
    kernel: Rc<Kernel>,
    at: i64,
    fired: Option<Rc<Cell<bool>>>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        match &self.fired {
            Some(fired) if fired.get() => Poll::Ready(()),
            Some(_) => Poll::Pending,
            None => {
                let fired = Rc::new(Cell::new(false));
                let task = self.kernel.current();
                self.kernel
                    .add_sleeper(self.at, task, context.waker().clone(), Rc::clone(&fired));
                self.fired = Some(fired);
                Poll::Pending
            }
        }
    }
}
