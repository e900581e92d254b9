import {Worker} from 'node:worker_threads';
import test, {type ExecutionContext} from 'ava';
import {systemClock} from '../../../src/kit/clock.ts';
import {PostThread} from '../../../src/resources/webhooks/post.ts';

/** A thread that exits on one of these URLs; `deadly` lists them for each start in turn. */
function threadOf(t: ExecutionContext, deadly: ReadonlyArray<readonly string[]>) {
	const crashes: string[] = [];
	let starts = 0;
	const thread = new PostThread({
		spawn() {
			const workerData = deadly[starts] ?? [];
			starts++;
			return new Worker(new URL('./broken-thread.js', import.meta.url), {workerData});
		},
		clock: systemClock,
		observer: {workerEnded: reason => crashes.push(reason)},
	});
	t.teardown(() => thread.stop());
	const post = (url: string, body = Buffer.from('{}')) =>
		thread.post({id: 'whd_1', url, signing: {secret: 's', next: null}, body});
	return {thread, post, crashes, starts: () => starts};
}

test('posts in a thread and returns results, copying only the body out of a large buffer', async t => {
	const {post, thread, starts} = threadOf(t, []);
	t.is(starts(), 0, 'no thread before it is needed');
	thread.start();
	thread.start();
	const large = Buffer.alloc(1_000_000);
	const ends = await Promise.all([post('a'), post('b', large.subarray(7, 12))]);
	t.deepEqual(
		ends.map(({status, address}) => [status, address]),
		[
			[200, '2'],
			[200, '5'],
		],
	);
	t.is(starts(), 1);
});

test('posts the pending work of a crashed thread in the next one', async t => {
	const {post, crashes, starts} = threadOf(t, [['bad']]);
	const ends = await Promise.all([post('bad'), post('good')]);
	t.deepEqual(
		ends.map(({status}) => status),
		[200, 200],
	);
	t.deepEqual(crashes, ['poster: broken']);
	t.is(starts(), 2);
});

test('gives up on a post that crashes two threads, and continues with others', async t => {
	const {post, crashes} = threadOf(t, [['bad'], ['bad']]);
	await t.throwsAsync(post('bad'), {message: 'The webhook thread crashed twice while posting it.'});
	t.like(await post('good'), {status: 200});
	t.is(crashes.length, 2);
});
