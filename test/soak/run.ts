import {appendFileSync, copyFileSync, rmSync, statSync, writeFileSync} from 'node:fs';
import {availableParallelism} from 'node:os';
import {join} from 'node:path';
import process from 'node:process';
import {setTimeout as wait} from 'node:timers/promises';
import type {Daemon, Scope} from '../helpers/daemon.ts';
import {fillDisk} from './disk.ts';
import {countOlder, fillPast, type Lab, openLab} from './lab.ts';
import {type Deed, dead, deeds, full, retention} from './plan.ts';
import type {End, Facts, Line, Moment} from './record.ts';
import {answers, countOf, now} from './tally.ts';
import {maxMoreDescriptors} from './verdicts.ts';
import {createWatch, queuedIn, readMetrics, readProcess} from './watch.ts';

const warmS = 10;
const measureS = 20;
/** Accepted and not arrived, while the top rate is measured. */
const ahead = 1500;
/** The tally has room for it. */
const maxPerS = 2000;
/** How long what the load left may take to arrive, and connections without work to be closed. */
const arrivalS = 600;
const idleS = 150;
/** What was under way at a kill comes again: it had arrived shortly before, or was on the wire. */
const aroundKill = {beforeMs: 30_000, afterMs: 3000};

export type SoakOptions = {
	/** The file for what is measured. */
	readonly record: string;
	/** Mails a second, or a share of the top rate: `70%`. */
	readonly rate: string;
	readonly seconds: number;
	/** Messages that are there from before. */
	readonly past: number;
	readonly diskGib: number;
};

/** Runs the daemon through the plan, and leaves the record. */
export async function soak(t: Scope, {record, rate, seconds, past, diskGib}: SoakOptions): Promise<void> {
	const lab = await openLab(t, {seconds, diskGib, mails: Math.ceil((seconds + warmS + measureS) * maxPerS)});
	const {program, tally, dataDir, url} = lab;
	const note = (line: Line) => appendFileSync(record, `${JSON.stringify(line)}\n`);
	const keep = (days: number) => writeFileSync(join(program.folder, '.env'), `MAILCTL_RETENTION_DAYS=${days}\n`);
	const counted = (name: keyof typeof countOf) => tally.counts[countOf[name]] as number;
	const allArrived = () => soon(arrivalS, async () => unarrived(lab) === 0);
	say(`Fills the store with ${past} messages of ${retention.pastDays} days.`);
	await fillPast(lab, past);
	keep(retention.days);
	let daemon: Daemon | null = await program.serve();
	await wait(3000);
	const descriptorsBefore = readProcess(daemon.pid)?.descriptors ?? 0;

	say(`Measures the top rate for ${measureS} seconds.`);
	lab.send({ahead});
	await wait(1000 * warmS);
	const [arrivedThen, then] = [counted('arrived'), now()];
	await wait(1000 * measureS);
	const topPerS = Math.round(((counted('arrived') - arrivedThen) * 1000) / (now() - then));
	lab.send({perSecond: 0});
	await allArrived();

	const perS = Math.round(rate.endsWith('%') ? (topPerS * Number.parseFloat(rate)) / 100 : Number(rate));
	note({
		facts: {
			...{began: new Date().toISOString(), seconds, topPerS, perS, past},
			...{cpus: availableParallelism(), node: process.version},
		} satisfies Facts,
	});
	say(`${topPerS} a second at most; sends ${perS} a second for ${seconds / 60} minutes.`);
	const begun = now();
	const at = () => (now() - begun) / 1000;
	const until = async (share: number) => void (await wait(Math.max(0, 1000 * (share * seconds - at()))));
	async function moment(what: Moment['what'], work: () => Promise<string | undefined>): Promise<void> {
		const from = at();
		say(what);
		const text = await work();
		note({moment: {what, from, to: at(), ...(text !== undefined && {note: text})}});
	}

	const exitCodes: Array<number | null> = [];
	const kills: number[] = [];
	async function replace(leave: (leaving: Daemon) => Promise<unknown>): Promise<undefined> {
		const leaving = daemon as Daemon;
		daemon = null;
		await leave(leaving);
		daemon = await program.serve();
	}
	const deed: Readonly<Record<Deed, () => Promise<string | undefined>>> = {
		async backup() {
			const file = join(program.folder, 'backup.tar');
			await program.cliBytes('backup', file);
			const size = `${Math.round(statSync(file).size / 2 ** 20)} MB`;
			rmSync(file);
			return size;
		},
		restart: () => replace(async leaving => exitCodes.push(await leaving.stop())),
		kill: () =>
			replace(async leaving => {
				kills.push(now());
				await leaving.kill();
			}),
		async full() {
			const free = await fillDisk(dataDir);
			await wait(1000 * Math.min(full.maxS, Math.max(full.minS, full.share * seconds)));
			free();
			return undefined;
		},
	};
	async function act(): Promise<void> {
		for (const {at: share, deed: what} of deeds) {
			await until(share);
			await moment(what, deed[what]);
		}
	}
	async function loseHost(): Promise<void> {
		await until(dead.from);
		await moment('dead', async () => {
			lab.setDead(true);
			await until(dead.to);
			lab.setDead(false);
			return undefined;
		});
	}
	async function shortenRetention(): Promise<void> {
		for (const {at: share, days} of retention.steps) {
			await until(share);
			keep(days);
			daemon?.signal('SIGHUP');
		}
	}

	let watching = true;
	const sample = createWatch({...lab, pid: () => daemon?.pid ?? null});
	async function watch(): Promise<void> {
		for (let second = 1; watching; second++) {
			await wait(Math.max(0, 1000 * (second - at())));
			note({sample: await sample(at())});
			if (second % 60 === 0) {
				say(`minute ${second / 60}: ${counted('accepted')} accepted, ${unarrived(lab)} to come`);
			}
		}
	}
	const watched = watch();
	lab.send({perSecond: perS});
	await Promise.all([act(), loseHost(), shortenRetention(), until(1)]);
	lab.send({perSecond: 0});
	note({moment: {what: 'load', from: 0, to: at()}});
	say('The load ends.');
	await allArrived();
	const last = daemon as Daemon;
	let [queued, descriptorsAfter] = [Number.NaN, Number.NaN];
	await soon(idleS, async () => {
		queued = queuedIn((await readMetrics(url)) ?? new Map());
		descriptorsAfter = readProcess(last.pid)?.descriptors ?? Number.NaN;
		return queued === 0 && descriptorsAfter <= descriptorsBefore + maxMoreDescriptors;
	});
	watching = false;
	await watched;
	const {walMb: walAfterMb} = await sample(at());
	exitCodes.push(await last.stop());

	copyFileSync(join(program.folder, 'daemon.log'), `${record}.log`);
	const lastDays = retention.steps.at(-1)?.days as number;
	note({
		end: {
			...balance(lab, kills),
			...{queued, descriptorsBefore, descriptorsAfter, walAfterMb, exitCodes},
			overdue: Math.round((past * (retention.pastDays - lastDays)) / retention.pastDays),
			overdueLeft: await countOlder(lab, lastDays),
			errors: await errorsOf(lab),
		} satisfies End,
	});
}

function say(text: string): void {
	console.log(`${new Date().toISOString().slice(11, 19)} ${text}`);
}

/** Whether the condition held within the time; asks twice a second. */
async function soon(limitS: number, condition: () => Promise<boolean>): Promise<boolean> {
	for (const end = performance.now() + 1000 * limitS; performance.now() < end; await wait(500)) {
		if (await condition()) {
			return true;
		}
	}
	return false;
}

function countMails({tally}: Lab, answer: keyof typeof answers, hasArrived: boolean): number {
	const sent = tally.counts[countOf.sent] as number;
	let count = 0;
	for (let number = 0; number < sent; number++) {
		const isThere = (tally.arrivals[number] as number) > 0;
		count += Number(tally.answer[number] === answers[answer] && isThere === hasArrived);
	}
	return count;
}

const unarrived = (lab: Lab): number => countMails(lab, 'accepted', false);

function balance(lab: Lab, kills: readonly number[]) {
	const [sent, accepted, refused, away, unanswered, wrong, late, arrived] = lab.tally.counts as unknown as number[];
	const byKill = lab.again.filter(({first, at}) =>
		kills.some(kill => first > kill - aroundKill.beforeMs && first < kill + aroundKill.afterMs && at > kill),
	);
	return {
		...({sent, accepted, refused, away, unanswered, wrong, late, arrived} as Record<keyof typeof countOf, number>),
		lost: unarrived(lab),
		arrivedRefused: countMails(lab, 'refused', true),
		againByKill: byKill.length,
		againElse: lab.again.length - byKill.length,
	};
}

const errorLevels: readonly unknown[] = ['error', 'fatal', 50, 60];

async function errorsOf({program}: Lab): Promise<Readonly<Record<string, number>>> {
	const errors: Record<string, number> = {};
	for (const line of (await program.log()).split('\n').filter(text => text.startsWith('{'))) {
		const {level, event} = JSON.parse(line) as {level: unknown; event: string};
		if (errorLevels.includes(level)) {
			errors[event] = (errors[event] ?? 0) + 1;
		}
	}
	return errors;
}
