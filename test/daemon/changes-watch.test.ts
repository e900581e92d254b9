import test from 'ava';
import {watchChanges} from '../../src/daemon/changes-watch.ts';
import {waitFor} from '../helpers/wait.ts';

test('what changes while the daemon starts is noticed', async t => {
	let changes = 0;
	const watch = watchChanges({
		since: 7,
		read: async () => 8,
		onChange: () => changes++,
		onError: error => t.fail(String(error)),
	});
	t.teardown(() => watch.stop());
	await waitFor('the change', () => changes === 1);
	t.is(changes, 1);
});
