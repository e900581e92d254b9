import {randomBytes} from 'node:crypto';
import {parentPort, workerData} from 'node:worker_threads';
import {LRUCache} from 'lru-cache';
import {importSigningKey, type SigningKey} from '../compose/dkim.ts';
import {createLinks} from '../links/links.ts';
import type {TokenKeys} from '../links/token-keys.ts';
import {systemClock} from '../mail/clock.ts';
import {type FromMaker, type MakeJob, type MakeResult, progress, type ToMaker} from '../queue/maker-protocol.ts';
import {createRenderer} from '../render/render.ts';
import type {FeedbackAddresses} from './feedback.ts';
import {createMake, type Ingredients, type Variant} from './make.ts';
import {createPatience} from './patience.ts';

/** What a maker thread is started with. */
export type MakerData = {
	readonly shared: SharedArrayBuffer;
	readonly keys: TokenKeys;
	readonly publicUrl: string;
	readonly tokenLifetimeMs: number;
	readonly listening: boolean;
	readonly senderId: string;
	readonly cfbl: FeedbackAddresses | null;
};

export type SigningKeyText = Parameters<typeof importSigningKey>[0];

const {shared, ...data} = workerData as MakerData;
const told = new Int32Array(shared);
const port = parentPort as NonNullable<typeof parentPort>;
const make = createMake({
	...data,
	links: createLinks({keys: data.keys, publicUrl: data.publicUrl, random: randomBytes}),
	renderer: createRenderer(),
	clock: systemClock,
});

const patience = createPatience(systemClock);
const restMs = 60_000;

const cached = 500;
const templates = new LRUCache<string, readonly Variant[]>({max: cached});
const signings = new LRUCache<string, readonly SigningKey[]>({max: cached});
const faults = new Map<string, string>();
const batches: Array<readonly MakeJob[]> = [];
const asked = new Set<string>();

port.on('message', (message: ToMaker) => {
	if (message.kind === 'make') {
		batches.push(message.jobs);
	} else {
		take(message);
	}
	work();
});

function take({name, value, fault}: Extract<ToMaker, {kind: 'resource'}>): void {
	asked.delete(name);
	try {
		if (fault !== undefined) {
			faults.set(name, fault);
		} else if (name.startsWith('template:')) {
			templates.set(name, value as Variant[]);
		} else {
			signings.set(name, (value as SigningKeyText[]).map(importSigningKey));
		}
	} catch (error) {
		// A key that is none fails the mail that is signed with it, not the thread.
		faults.set(name, error instanceof Error ? error.message : String(error));
	}
}

/** Batches are done in order, each once everything it needs is here. */
function work(): void {
	for (let jobs = batches[0]; jobs; jobs = batches[0]) {
		if (!hasAll(jobs)) {
			return;
		}
		batches.shift();
		const results = jobs.map(makeOne);
		faults.clear();
		const transfer = results.flatMap(result => (result.ok ? [result.made.mail.buffer as ArrayBuffer] : []));
		port.postMessage({kind: 'made', results} satisfies FromMaker, transfer);
	}
}

function hasAll(jobs: readonly MakeJob[]): boolean {
	const missing = new Set<string>();
	for (const {versionId, signing} of jobs) {
		for (const name of [`template:${versionId}`, `dkim:${signing}`]) {
			if (!templates.has(name) && !signings.has(name) && !faults.has(name)) {
				missing.add(name);
			}
		}
	}
	for (const name of missing) {
		if (!asked.has(name)) {
			asked.add(name);
			port.postMessage({kind: 'need', name} satisfies FromMaker);
		}
	}
	return missing.size === 0;
}

/** One batch holds mail of many senders: where a template takes all its time again and again, the others go first. */
function makeOne(job: MakeJob): MakeResult {
	if (patience.isSpent(job.versionId)) {
		const message = 'The mails before this one took longer to render than allowed.';
		Atomics.add(told, progress.started, 1);
		return {ok: false, unmade: {reason: 'render_limit', message, waitMs: restMs}};
	}
	const began = performance.now();
	const result = makeInTime(job);
	patience.note(job.versionId, result.ok, performance.now() - began);
	return result;
}

function makeInTime(job: MakeJob): MakeResult {
	Atomics.add(told, progress.started, 1);
	Atomics.store(told, progress.working, 1);
	try {
		return make(job, ingredientsOf(job));
	} catch (error) {
		return {
			ok: false,
			unmade: {reason: 'make_failed', message: error instanceof Error ? error.message : String(error)},
		};
	} finally {
		Atomics.store(told, progress.working, 0);
	}
}

function ingredientsOf({versionId, signing}: MakeJob): Ingredients {
	const [variants, keys] = [templates.get(`template:${versionId}`), signings.get(`dkim:${signing}`)];
	if (!variants || !keys) {
		throw new Error(faults.get(`template:${versionId}`) ?? faults.get(`dkim:${signing}`));
	}
	return {variants, signing: keys};
}
