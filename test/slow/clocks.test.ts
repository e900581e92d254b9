import {rename, writeFile} from 'node:fs/promises';
import {join} from 'node:path';
import test, {type ExecutionContext} from 'ava';
import {hourMs as hour} from '../../src/kit/time.ts';
import {type Daemon, prepareProgram, type Settings, welcomeOf} from '../helpers/daemon.ts';
import {notRunHere} from '../helpers/not-run-here.ts';
import {call} from '../helpers/shop.ts';
import {skewedBy} from '../helpers/skewed.ts';
import {waitFor} from '../helpers/wait.ts';

type Read = {readonly id: string; readonly status: string; readonly created_at: string; readonly send_at?: string};

/** A program whose wall clock the test sets relative to the machine's; null: libfaketime is not installed. */
async function startWithClock(t: ExecutionContext, difference: number, settings: Settings) {
	const faked = skewedBy('');
	if (faked === null) {
		return notRunHere(t, 'libfaketime is not installed (scripts/debian-peers.sh installs it)');
	}
	const {FAKETIME: _, ...library} = faked;
	const program = await prepareProgram(t, {...library, ...settings, FAKETIME_NO_CACHE: '1'});
	const file = join(program.folder, 'clock');
	/** Sets it in one step: while the file is empty, the clock is the machine's. */
	const set = async (to: number) => {
		await writeFile(`${file}.new`, `${to < 0 ? '' : '+'}${(to / 1000).toFixed(3)}\n`);
		await rename(`${file}.new`, file);
	};
	await set(difference);
	return {program, set, serve: () => program.serve({FAKETIME_TIMESTAMP_FILE: file})};
}

async function clientOf(program: Awaited<ReturnType<typeof prepareProgram>>, {url}: Daemon) {
	const {key, from, templateId} = await welcomeOf(program);
	const read = async (id: string) => (await call(`${url}/v1/messages/${id}`, key)).body as Read;
	return {
		read,
		send: async (to: string, sendAt?: string) =>
			(
				(await call(`${url}/v1/messages`, key, {from, to, templateId, ...(sendAt !== undefined && {sendAt})}))
					.body as Read
			).id,
		delivered: (id: string) => waitFor(id, async () => (await read(id)).status === 'delivered'),
		/** The number of its deliveries. */
		async times(id: string) {
			const {data} = (await call(`${url}/v1/messages/${id}/events`, key)).body as {data: Array<{type: string}>};
			return data.filter(({type}) => type === 'delivered').length;
		},
	};
}

test('sends scheduled messages once and never early while the wall clock is set forward and back', async t => {
	const started = await startWithClock(t, 0, {});
	if (started === null) {
		return;
	}
	const {program, serve, set} = started;
	const daemon = await serve();
	const {send, read, delivered} = await clientOf(program, daemon);
	const [first, second, third] = [
		await send('1@a.example', '+1h'),
		await send('2@a.example', '+2h'),
		await send('3@a.example', '+9h'),
	];
	await set(hour);
	await delivered(first);
	await set(-5 * hour);
	const past = await send('past@a.example', '+1h');
	await delivered(await send('now@a.example'));
	t.is((await read(second)).status, 'accepted');
	t.is((await read(past)).status, 'accepted');
	await set(0);
	await delivered(past);
	t.is((await read(second)).status, 'accepted');
	await daemon.kill();

	// The clock is set while no daemon runs.
	await set(3 * hour);
	const next = await serve();
	const after = await clientOf(program, next);
	await after.delivered(second);
	await set(0);
	await after.delivered(await after.send('again@a.example'));
	t.is((await after.read(third)).status, 'accepted');
	await set(10 * hour);
	await after.delivered(third);
	for (const id of [first, second, third, past]) {
		t.is(await after.times(id), 1, id);
	}
	t.is(await next.stop(), 0);
});

/** When the clocks of Central Europe change, with times before, and half an hour and two hours after. */
const changes = {
	forward: {
		at: Date.UTC(2026, 2, 29, 1),
		...{past: '2026-03-29T01:30:00+01:00', soon: '2026-03-29T03:30:00+02:00', later: '2026-03-29T05:00:00+02:00'},
	},
	back: {
		at: Date.UTC(2026, 9, 25, 1),
		...{past: '2026-10-25T02:30:00+02:00', soon: '2026-10-25T02:30:00+01:00', later: '2026-10-25T04:00:00+01:00'},
	},
};

for (const [name, {at, ...times}] of Object.entries(changes)) {
	test(`scheduled messages follow real time where the time zone of the daemon sets its clocks ${name}`, async t => {
		const before = hour / 6;
		const started = await startWithClock(t, at - before - Date.now(), {TZ: 'Europe/Berlin'});
		if (started === null) {
			return;
		}
		const {program, serve, set} = started;
		const daemon = await serve();
		const {send, read, delivered, times: timesOf} = await clientOf(program, daemon);
		const ids = {
			past: await send('past@a.example', times.past),
			soon: await send('soon@a.example', times.soon),
			later: await send('later@a.example', times.later),
			inTwoHours: await send('in-two-hours@a.example', '+2h'),
		};
		const {created_at: created, send_at: sendAt = ''} = await read(ids.inTwoHours);
		t.true(Math.abs(Date.parse(sendAt) - Date.parse(created) - 2 * hour) <= 60_000, `${created} ${sendAt}`);
		await delivered(ids.past);
		const statuses = async () => (await Promise.all(Object.values(ids).map(read))).map(({status}) => status);
		t.deepEqual(await statuses(), ['delivered', 'accepted', 'accepted', 'accepted']);
		await set(at + hour * 1.5 - Date.now());
		await delivered(ids.soon);
		await delivered(await send('now@a.example'));
		t.deepEqual(await statuses(), ['delivered', 'delivered', 'accepted', 'accepted']);
		await set(at + 2.1 * hour - Date.now());
		await delivered(ids.later);
		await delivered(ids.inTwoHours);
		for (const id of Object.values(ids)) {
			t.is(await timesOf(id), 1);
		}
		t.is(await daemon.stop(), 0);
	});
}
