import test from 'ava';
import fc from 'fast-check';
import {ArrivalNotices, readArrivalNotice} from '../../src/daemon/peers.ts';
import type {QueueKey} from '../../src/mail/route.ts';
import {openStore} from '../../src/store/store.ts';
import {engines, newLocation} from '../helpers/databases.ts';
import {waitFor} from '../helpers/wait.ts';

const queue = (n: number): QueueKey => ({destination: `dest-${n}.example`, workspaceId: 'ws_1'});

test('a notice names queues to other nodes; one that is too long or unreadable makes them check all', async t => {
	const notices: string[] = [];
	let answer = () => undefined as unknown;
	const store = {
		notifyNodes: async (notice: string) => {
			notices.push(notice);
			await new Promise(resolve => {
				answer = () => resolve(undefined);
			});
		},
	};
	const notifier = new ArrivalNotices(store, 'req_a', {storeFailed: error => t.fail(String(error))});
	notifier.send([]);
	notifier.send([queue(1), queue(2)]);
	// While that one is on its way.
	notifier.send([queue(3), queue(1)]);
	notifier.send([queue(3)]);
	t.is(notices.length, 1);
	answer();
	await waitFor('the next', () => notices.length === 2);
	t.deepEqual(
		notices.map(notice => readArrivalNotice(notice, 'req_b')),
		[
			[queue(1), queue(2)],
			[queue(3), queue(1)],
		],
	);
	t.deepEqual(readArrivalNotice(notices[0] ?? '', 'req_a'), [], 'its own');
	notifier.send(Array.from({length: 1000}, (_, n) => queue(n)));
	answer();
	await waitFor('the third', () => notices.length === 3);
	t.true((notices[2] ?? '').length < 8000);
	t.is(readArrivalNotice(notices[2] ?? '', 'req_b'), null);
	t.is(readArrivalNotice(null, 'req_b'), null);
	fc.assert(
		fc.property(fc.string(), text => {
			const read = readArrivalNotice(`req_x ${text}`, 'req_b');
			t.true(read === null || Array.isArray(read));
		}),
	);
});

if (engines.includes('postgres')) {
	test('other nodes receive a node’s notices, even after their connection was cut', async t => {
		const location = await newLocation(t, 'postgres');
		const [one, other] = [await openStore(location), await openStore(location)];
		t.teardown(() => Promise.all([one.close(), other.close()]));
		const received: Array<string | null> = [];
		await other.listen(notice => received.push(notice));
		t.deepEqual(received, [null], 'earlier notices may have been missed');
		await one.notifyNodes('hello');
		await waitFor('the notice', () => received.includes('hello'));

		const cut = `select pg_terminate_backend(pid) from pg_stat_activity
			where application_name = 'mailctl pulse' and datname = current_database()`;
		await one.database.raw(cut);
		await waitFor('it listens again', () => received.length === 3);
		t.is(received[2], null);
		await one.notifyNodes('again');
		await waitFor('the notice', () => received[3] === 'again');
	});
}
