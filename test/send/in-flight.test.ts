import test from 'ava';
import {accepted, createInFlight, refused, type SendResult} from '../../src/send/draft.ts';

type Run = {readonly end: (result: SendResult) => void; readonly fail: (error: Error) => void};

/** Starts sends that finish when the test says so, in the order in which they started. */
function start(waitMs = 600_000) {
	const inFlight = createInFlight(waitMs);
	const begun: Run[] = [];
	const send = (fingerprint = 'f', name = 'n', others = 'o') =>
		inFlight(
			name,
			{fingerprint, others},
			() => new Promise<SendResult>((resolve, reject) => begun.push({end: resolve, fail: reject})),
		);
	const run = (index: number) => begun[index] as Run;
	return {send, run, begun};
}

const turn = () => new Promise(resolve => setImmediate(resolve));

test('sends wait for the one in progress, then replay its response or fail if they differ', async t => {
	const {send, run, begun} = start();
	const sends = [send(), send(), send('other'), send('f', 'another name'), send('f', 'n', 'p')];
	t.is(begun.length, 2);
	run(0).end(accepted('msg_1'));
	run(1).end(accepted('msg_2'));
	t.like(await sends[0], {ok: true, id: 'msg_1', replayed: false});
	t.like(await sends[1], {ok: true, id: 'msg_1', replayed: 'true', body: '{"id":"msg_1","status":"accepted"}'});
	t.deepEqual(await sends[2], refused('idempotency_key_reused'));
	t.like(await sends[3], {ok: true, id: 'msg_2', replayed: false});
	t.like(await sends[4], {ok: true, id: 'msg_1', replayed: 'differs'});
	t.is(begun.length, 2);
});

test('after a rejection or failure, the next send is checked anew, one at a time', async t => {
	const {send, run, begun} = start();
	const [first, second, third, fourth] = [send(), send('other'), send(), send()];
	run(0).end(refused('recipient_suppressed'));
	t.deepEqual(await first, refused('recipient_suppressed'));
	await turn();
	t.is(begun.length, 2);
	run(1).fail(new Error('lost'));
	await t.throwsAsync(second, {message: 'lost'});
	await turn();
	t.is(begun.length, 3);
	run(2).end(accepted('msg_1'));
	t.like(await third, {ok: true, replayed: false});
	t.like(await fourth, {ok: true, replayed: 'true'});
	const again = send();
	t.is(begun.length, 4);
	run(3).end(accepted('msg_2'));
	t.like(await again, {ok: true, id: 'msg_2'});
});

test('a send that waits too long is refused without being started', async t => {
	const {send, run, begun} = start(1);
	const [first, second] = [send(), send()];
	t.deepEqual(await second, refused('unavailable'));
	run(0).end(accepted('msg_1'));
	t.like(await first, {ok: true});
	t.is(begun.length, 1);
});
