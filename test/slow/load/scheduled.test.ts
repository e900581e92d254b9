import {randomBytes} from 'node:crypto';
import {readFileSync} from 'node:fs';
import {join} from 'node:path';
import test from 'ava';
import {fillStore} from '../../../src/cli/bench/fill.ts';
import {dayMs, hourMs, storeTime} from '../../../src/kit/time.ts';
import {openStore, type Store, type StoreLocation} from '../../../src/store/store.ts';
import {welcomeOf} from '../../helpers/daemon.ts';
import {engines, newLocation} from '../../helpers/databases.ts';
import type {FakeMxOptions} from '../../helpers/fake-mx.ts';
import {fullLoad, scaled} from '../../helpers/load-scale.ts';
import {startMailHosts} from '../../helpers/mail-hosts.ts';
import {eachOf} from '../../helpers/shop.ts';
import {waitFor} from '../../helpers/wait.ts';

const scheduled = {sqlite: scaled(1_000_000), postgres: 100_000};
/** Those of them that come due during the test, one after the other. */
const [due, dueMs] = [300, 6000];
/** The time from the fill to the first of those, in which the fill finishes and the daemon starts. */
const startMs = fullLoad ? 60_000 : 20_000;
const domains = 2000;
const changes = scaled(2000);
/** The promised delay, which only an otherwise idle machine is sure to meet. */
const maxLateMs = 2000;
const maxMb = 400;

/** A memory figure of a process in MB, from /proc. */
const memoryMb = (pid: number, name: 'VmRSS' | 'VmHWM') =>
	Math.round(Number(new RegExp(`${name}:\\s+(\\d+)`).exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024);

/** The CPU time of a process in milliseconds; Linux counts in hundredths of a second. */
const cpuMs = (pid: number) => {
	const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(' ');
	return (Number(fields[13]) + Number(fields[14])) * 10;
};

const share = (values: readonly number[], part: number) =>
	Math.round(values.toSorted((a, b) => a - b)[Math.ceil(part * (values.length - 1))] ?? 0);
const figures = (values: readonly number[]) =>
	`median ${share(values, 0.5)}, 99 % ${share(values, 0.99)}, at most ${share(values, 1)} ms`;

/** Schedules messages for the next month. When those that come due soon do, by address; messages of the others. */
async function fill(
	{database, reader}: Store,
	{messages, from, templateId}: {readonly messages: number; readonly from: string; readonly templateId: string},
): Promise<{readonly sendAt: ReadonlyMap<string, number>; readonly others: string[]}> {
	const {id} = await reader('workspaces').first('id');
	const {id: versionId} = await reader('template_versions').where({template_id: templateId}).first('id');
	const now = Date.now();
	const between = (29 * dayMs) / messages;
	await fillStore(
		{database, reader},
		{
			...{workspaces: [{id, sender: from, templateId, versionId}], messages, now, random: randomBytes},
			// Neighbours are due at quite different times.
			waitsUntil: number => now + 2 * hourMs + ((number * 7919) % messages) * between,
			data: {n: '{n}'},
		},
	);
	const begins = Date.now() + startMs;
	const soon: Array<{id: string; address: string}> = await reader('recipients')
		.whereRaw(`address like '%7@%'`)
		.limit(due)
		.select('id', 'address');
	const at = soon.map((_, nth) => Math.floor(begins + (nth * dueMs) / due));
	await database.transaction(async trx => {
		for (const [nth, {id: recipient_id}] of soon.entries()) {
			await trx('queue')
				.where({recipient_id})
				.update({next_attempt_at: storeTime(at[nth] as number)});
		}
		// As if none had been tried.
		await trx.raw(`update queue set attempts = 0, send_at = next_attempt_at,
			scheduled_message = 'msg_' || substr(recipient_id, 5)`);
		await trx.raw(
			`update recipients set state = 'accepted', attempts = 0, last_category = null, last_reply = null`,
		);
		await trx('attempts').delete();
		await trx('events').delete();
	});
	const others: string[] = await reader('recipients')
		.whereRaw(`address like '%3@%'`)
		.limit(changes)
		.pluck('message_id');
	return {sendAt: new Map(soon.map(({address}, nth) => [address, at[nth] as number])), others};
}

for (const engine of engines) {
	const messages = scheduled[engine];
	test.serial(
		`sends the due ones of ${messages} scheduled messages on time, beside new ones (${engine})`,
		async t => {
			t.timeout(1_200_000);
			const arrivals = new Map<string, number[]>();
			const host: FakeMxOptions = {
				countOnly: true,
				dot(_line, connection) {
					const line = connection.commands.findLast(one => one.startsWith('RCPT')) ?? '';
					const to = /<(.*)>/.exec(line)?.[1] ?? '';
					arrivals.set(to, [...(arrivals.get(to) ?? []), Date.now()]);
					return undefined;
				},
			};
			const names = Array.from({length: domains}, (_, n) => `mail${n}.example`);
			const {program} = await startMailHosts(
				t,
				{'mx.sink.example': host, 'mx.new.example': host},
				Object.fromEntries(names.map(name => [name, {mx: [[10, 'mx.sink.example']] as const}])),
				{MAILCTL_LOG_LEVEL: 'warn'},
			);
			const location: StoreLocation =
				engine === 'sqlite' ? {file: join(program.folder, 'data/mailctl.db')} : await newLocation(t, engine);
			const settings = 'url' in location && {
				MAILCTL_DATABASE_URL: location.url,
				MAILCTL_SECRET_KEY: Buffer.alloc(32, 7).toString('base64'),
			};
			Object.assign(program.environment.env, settings);
			const first = await program.serve({MAILCTL_LOG_LEVEL: 'info'});
			await first.stop();
			const {key, from, templateId} = await welcomeOf(program);

			const filling = performance.now();
			const store = await openStore(location);
			const {sendAt, others} = await fill(store, {messages, from, templateId}).finally(store.close);
			t.log(`filled in ${Math.round((performance.now() - filling) / 1000)} s`);

			const daemon = await program.serve();
			const readyAt = Date.now();
			t.log(`ready after ${Math.round(daemon.readyMs)} ms, ${cpuMs(daemon.pid)} ms of CPU`);
			const ask = async (method: string, path: string, body: object) => {
				const headers = {authorization: `Bearer ${key}`, 'content-type': 'application/json'};
				const answer = await fetch(`${daemon.url}/v1/messages${path}`, {
					method,
					headers,
					body: JSON.stringify(body),
				});
				await answer.arrayBuffer();
				return answer.status;
			};

			const news: number[] = [];
			while ([...sendAt.keys()].some(address => !arrivals.has(address))) {
				const to = `new${news.length}@new.example`;
				t.is(await ask('POST', '', {from, to, templateId}), 202);
				const taken = Date.now();
				await waitFor(to, () => arrivals.has(to));
				news.push(Math.max(0, (arrivals.get(to)?.[0] ?? 0) - taken));
			}
			const late = [...sendAt].map(([address, at]) => (arrivals.get(address)?.[0] ?? 0) - at);
			t.true(Math.min(...late) >= 0, 'none leaves early');
			// What was due before the daemon was ready waits for that.
			const behind = [...sendAt].map(
				([address, at]) => (arrivals.get(address)?.[0] ?? 0) - Math.max(at, readyAt),
			);
			t.log(
				`${due} due ones were late: ${figures(behind)}; ${news.length} new ones beside them took ${figures(news)}`,
			);
			if (fullLoad) {
				t.true(Math.max(...behind) <= maxLateMs, `${Math.max(...behind)} ms late`);
			}

			for (const [name, method, path, body] of [
				['cancel', 'POST', '/cancel', {}],
				['postpone', 'PATCH', '', {sendAt: '+30d'}],
				['advance', 'PATCH', '', {sendAt: '+1h'}],
				['cancel', 'POST', '/cancel', {}],
			] as const) {
				const ids = name === 'cancel' ? others.splice(0, changes / 2) : others;
				const [began, cpu, each] = [performance.now(), cpuMs(daemon.pid), [] as number[]];
				await eachOf(ids, 8, async one => {
					const asked = performance.now();
					t.is(await ask(method, `/${one}${path}`, body), 200);
					each.push(performance.now() - asked);
				});
				const perSecond = Math.round((1000 * ids.length) / (performance.now() - began));
				const cpuEach = ((cpuMs(daemon.pid) - cpu) / ids.length).toFixed(1);
				t.log(`${name}: ${perSecond}/s, ${figures(each)}, ${cpuEach} ms of CPU`);
			}
			t.log(`${memoryMb(daemon.pid, 'VmRSS')} MB, at most ${memoryMb(daemon.pid, 'VmHWM')} MB`);
			t.true(memoryMb(daemon.pid, 'VmHWM') < maxMb);
			t.is(await daemon.stop(), 0);
			t.is(arrivals.size, due + news.length, 'nothing else left');
			t.true(
				[...arrivals.values()].every(({length}) => length === 1),
				'and nothing twice',
			);
		},
	);
}
