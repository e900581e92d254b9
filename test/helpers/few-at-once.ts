import type {Scope} from './daemon.ts';

// The tests of a file run at once, and several files do. Dozens of daemons on two cores take each other's time, and each costs
// more than it would alone.

const maxTests = 2;
let running = 0;
const waiting: Array<() => void> = [];
const admitted = new WeakSet<object>();

/** Waits until few other tests of the process run programs; from then on the test may start as many as it wants. */
export async function admit(t: Pick<Scope, 'teardown'>): Promise<void> {
	if (admitted.has(t)) {
		return;
	}
	admitted.add(t);
	if (running === maxTests) {
		await new Promise<void>(resolve => waiting.push(resolve));
	} else {
		running++;
	}
	t.teardown(() => {
		const next = waiting.shift();
		if (next) {
			next();
		} else {
			running--;
		}
	});
}
