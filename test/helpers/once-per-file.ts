import type {TestFn} from 'ava';
import type {Scope} from './daemon.ts';
import {exempt} from './program-slots.ts';

/**
 * Something that all tests of a file share: made before the first, taken down after the last by what its maker left in
 * the scope.
 */
export function oncePerFile<Value>(test: TestFn, make: (scope: Scope) => Promise<Value>): () => Value {
	let value: Value | undefined;
	let failed = false;
	const teardowns: Array<() => unknown> = [];
	test.before(async t => {
		const scope = exempt({
			get passed() {
				return !failed;
			},
			log: (...lines) => t.log(...lines),
			teardown: run => void teardowns.push(run as () => unknown),
		});
		value = await make(scope);
	});
	test.afterEach.always(t => {
		failed ||= !t.passed;
	});
	test.after.always(async () => {
		for (const run of teardowns.reverse()) {
			await run();
		}
	});
	return () => value as Value;
}
