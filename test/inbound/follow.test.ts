import test, {type ExecutionContext} from 'ava';
import {MailboxFollower} from '../../src/inbound/mailboxes.ts';
import {waitFor} from '../helpers/wait.ts';

type Mailbox = ConstructorParameters<typeof MailboxFollower>[0]['mailbox'];

type Script = {
	/** What happens when the mailbox is opened for the nth time, counting from 1. */
	readonly open?: (nth: number) => unknown;
	/** What happens when the mailbox is read for the nth time. */
	readonly read?: (nth: number, more: () => void) => unknown;
};

function follow(
	t: ExecutionContext,
	{open = () => undefined, read = () => undefined}: Script,
	intervalMs = 600_000,
	waitLimitMs = 60_000,
) {
	const seen = {
		opened: 0,
		read: 0,
		closed: 0,
		listened: 0,
		waits: [] as number[],
		works: [] as boolean[],
		wake: (): void => undefined,
	};
	const mailbox: Mailbox = {
		async open(wake) {
			seen.opened++;
			seen.wake = wake;
			await open(seen.opened);
			return {
				async takeNew(_, more) {
					seen.read++;
					await read(seen.read, more);
					return {taken: 0, known: 0, cut: 0, skipped: 0};
				},
				listen: () => void seen.listened++,
				explain: error => error,
				close: () => void seen.closed++,
			};
		},
	};
	const follower = new MailboxFollower({
		mailbox,
		intervalMs,
		waitLimitMs,
		observer: {
			mailboxRead: (_, works) => void seen.works.push(works),
			mailboxFailed: (_, waitMs) => void seen.waits.push(waitMs),
		},
	});
	const stop = () => follower.stop();
	t.teardown(stop);
	return {seen, stop};
}

const broken = () => {
	throw new Error('broken');
};

test('reads again after the interval, and listens for changes in between', async t => {
	const {seen, stop} = follow(t, {}, 5);
	await waitFor('it looked three times', () => seen.read >= 3);
	await stop();
	t.is(seen.opened, 1);
	t.is(seen.closed >= 1, true);
	t.true(seen.listened >= 2);
});

test('reads at once when notified, even if the notification arrives during a read', async t => {
	const {seen} = follow(t, {read: nth => nth === 1 && seen.wake()});
	await waitFor('it looked twice', () => seen.read === 2);
	seen.wake();
	await waitFor('it looked again', () => seen.read === 3);
	t.is(seen.opened, 1);
});

test('reports a mailbox that cannot be opened and retries', async t => {
	const {seen} = follow(t, {open: nth => nth === 1 && broken()});
	await waitFor('it is read', () => seen.read === 1);
	t.deepEqual(seen.waits, [1000]);
});

test('backs off after failures, longest after a rejected login, so as not to get locked out', async t => {
	const growing = follow(t, {open: broken});
	await waitFor('it was tried twice', () => growing.seen.waits.length === 2);
	t.deepEqual(growing.seen.waits, [1000, 2000]);
	const refused = follow(t, {
		open() {
			throw Object.assign(new Error('no'), {authenticationFailed: true});
		},
	});
	await waitFor('it was tried', () => refused.seen.waits.length === 1);
	t.deepEqual(refused.seen.waits, [300_000]);
	// A stop does not wait for the delay, which would outlast the test.
	await Promise.all([growing.stop(), refused.stop()]);
});

test('silently reopens a mailbox whose connection was lost', async t => {
	const {seen} = follow(t, {read: nth => nth === 2 && broken()}, 5);
	await waitFor('it is read again', () => seen.read > 2);
	t.is(seen.opened, 2);
	t.deepEqual(seen.waits, []);
});

const never = () => new Promise<void>(() => undefined);

test('treats a mailbox that hangs while it is opened as failed, and retries', async t => {
	const {seen} = follow(t, {open: nth => (nth === 1 ? never() : undefined)}, 600_000, 20);
	await waitFor('it is read', () => seen.read === 1);
	t.deepEqual(seen.waits, [1000]);
});

test('reports a mailbox that hangs as failed until it responds again', async t => {
	const {seen} = follow(t, {read: nth => (nth === 2 ? never() : undefined)}, 5, 20);
	await waitFor('it works again', () => seen.read > 3);
	t.is(seen.opened, 2);
	t.deepEqual(seen.waits, [1000]);
	t.deepEqual(seen.works.slice(0, 3), [true, false, true]);
});

test('does not time out a long read that keeps returning messages', async t => {
	// Longer than a busy machine may pause this process.
	const waitLimitMs = 3000;
	const {seen} = follow(
		t,
		{
			async read(nth, more) {
				for (const end = performance.now() + 2 * waitLimitMs; nth === 1 && performance.now() < end; more()) {
					await new Promise(resolve => setTimeout(resolve, 10));
				}
			},
		},
		5,
		waitLimitMs,
	);
	await waitFor('it looked twice', () => seen.read >= 2);
	t.deepEqual([seen.opened, seen.waits], [1, []]);
});
