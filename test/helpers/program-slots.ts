import type {Scope} from './daemon.ts';
import {Slots} from './slots.ts';

// The tests of a file run at once, and several files do. Dozens of daemons on two cores take each other's time, and
// each costs more than it would alone.

/** Tests of a process that may run programs at once. */
const slots = new Slots(2);
const admitted = new WeakSet<object>();

/** Waits until few other tests of the process run programs; from then on the test may start as many as it wants. */
export async function admit(t: Pick<Scope, 'teardown'>): Promise<void> {
	if (!admitted.has(t)) {
		admitted.add(t);
		await slots.take();
		t.teardown(() => slots.release());
	}
}

/** The programs that all tests of a file share take no test's slot. */
export function exempt(scope: Scope): Scope {
	admitted.add(scope);
	return scope;
}
