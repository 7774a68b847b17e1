//! What comes by itself: ticks of the schedule, deaths of instances, new versions, operators.

use std::rc::Rc;

use sealpost::relay::tick;

use super::choices::Subject;
use super::faults::OTHERS;
use super::kernel::TaskId;
use super::oracle::Role;
use super::ports::Worker;
use super::setting::HELD_FAMILY;
use super::sim::Sim;

/// The schedule's interval.
pub const TICK_MS: i64 = 60_000;

/// Runs longer than this have a tick only every ten minutes.
const SPARSE_FROM_MS: i64 = 40 * TICK_MS;

/// Starts the schedule, which runs while faults last, and everything else that comes by itself.
pub fn start(sim: &Rc<Sim>) {
    let world = Rc::clone(sim);
    sim.kernel.spawn(0, async move {
        while !world.quiet.get() {
            // A long run sees fewer ticks: most would find nothing.
            let sparse = world.setting.active_ms > SPARSE_FROM_MS;
            world.kernel.sleep(if sparse { 10 * TICK_MS } else { TICK_MS }).await;
            let Some(mix) = world.mix() else { return };
            if world.choices.chance(Subject::Schedule, mix.skip_permille) {
                world.counted(OTHERS[2]);
                continue;
            }
            fire(&world);
            if world.choices.chance(Subject::Schedule, mix.overlap_permille) {
                world.counted(OTHERS[3]);
                fire(&world);
            }
        }
    });
    let active = u32::try_from(sim.setting.active_ms).expect("hours");
    for _ in 0..sim.setting.mix.instance_deaths {
        let at = i64::from(sim.choices.below(Subject::Deaths, active));
        let world = Rc::clone(sim);
        sim.kernel.spawn(0, async move {
            world.kernel.sleep(at).await;
            restart(&world);
        });
    }
    for _ in 0..sim.setting.suppressions {
        let at = i64::from(sim.choices.below(Subject::Operators, active));
        let which = sim
            .choices
            .below(Subject::Operators, u32::try_from(sim.setting.facts.len()).expect("few"));
        let world = Rc::clone(sim);
        sim.kernel.spawn(0, async move {
            world.kernel.sleep(at).await;
            let fact = world.setting.facts[which as usize].clone();
            world.suppress(&fact);
        });
    }
    for _ in 0..sim.setting.pauses {
        let at = i64::from(sim.choices.below(Subject::Operators, active));
        let scope = sim
            .choices
            .one(Subject::Operators, &["*", "notice", "invitation", HELD_FAMILY]);
        let lasts = sim.choices.one(Subject::Operators, &[60_000, 600_000, 3_600_000]);
        let world = Rc::clone(sim);
        sim.kernel.spawn(0, async move {
            world.kernel.sleep(at).await;
            world.pause(scope, lasts);
        });
    }
    count_versions(sim);
}

fn count_versions(sim: &Rc<Sim>) {
    let instances = sim.instances.borrow();
    if instances
        .iter()
        .any(|instance| instance.program != instances[0].program)
    {
        sim.counted(OTHERS[5]);
    }
    if instances.iter().any(|instance| instance.skew != instances[0].skew) {
        sim.counted(OTHERS[4]);
    }
}

/// One tick of the schedule, on some instance.
pub fn fire(sim: &Rc<Sim>) -> TaskId {
    let (_, instance) = sim.any_instance();
    let worker = Worker::new(sim, Role::Relay, instance);
    let invocation = worker.who.invocation;
    sim.note(|| format!("the schedule fires #{invocation} ({})", instance.program.name()));
    let dies_in = sim.mix().and_then(|mix| {
        sim.choices
            .chance(Subject::Deaths, mix.death_permille)
            .then(|| sim.choices.below(Subject::Deaths, 10) + 1)
    });
    let world = Rc::clone(sim);
    let on_death: Box<dyn FnOnce()> = Box::new(move || {
        world.counted(OTHERS[0]);
        world.note(|| format!("#{invocation} dies"));
    });
    sim.kernel
        .spawn_mortal(instance.group, dies_in, Some(on_death), async move {
            let config = worker.config();
            tick(&worker, &worker.broker(), &config).await;
        })
}

/// An instance dies with all it does, and comes back, perhaps as another version.
fn restart(sim: &Rc<Sim>) {
    if sim.quiet.get() {
        return;
    }
    let (at, instance) = sim.any_instance();
    let program = sim.choices.one(Subject::Deaths, &sim.setting.programs);
    sim.counted(OTHERS[1]);
    sim.note(|| {
        format!(
            "instance {at} dies ({}) and comes back ({})",
            instance.program.name(),
            program.name()
        )
    });
    sim.kernel.kill_group(instance.group);
    {
        let mut instances = sim.instances.borrow_mut();
        instances[at].group += 1_000;
        instances[at].program = program;
    }
    count_versions(sim);
}
