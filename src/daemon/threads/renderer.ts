import {parentPort, workerData} from 'node:worker_threads';
import {LRUCache} from 'lru-cache';
import {importSigningKey, type SigningKey} from '../../compose/dkim.ts';
import {createLinks} from '../../compose/links/links.ts';
import type {TokenKeys} from '../../compose/links/tokens.ts';
import {createRenderer} from '../../compose/render/render.ts';
import {createSharedClock} from '../../kit/clock.ts';
import {progress} from '../../kit/foreign-work.ts';
import {createGarbage} from '../../kit/memory.ts';
import {pooledRandom} from '../../mail/ids.ts';
import type {Unmade} from '../../queue/attempt.ts';
import {
	type FromRenderer,
	type MakeJob,
	type MakeResult,
	quickMs,
	type RendererResult,
	type SentJob,
	type ToRenderer,
} from '../../queue/renderers.ts';
import {type FeedbackAddresses, type Ingredients, MessageComposer, type Variant} from './message-composer.ts';

/**
 * The data with which a renderer is started.
 *
 * The folder holds the entry points of the worker threads. They connect a port to the code that does the work, which
 * comes from other folders; for this thread, `message-composer.ts` renders, composes and signs messages. Threads get their data
 * from the main thread. Only `store-writer.ts` opens the store.
 */
export type RendererData = {
	readonly shared: SharedArrayBuffer;
	/** The memory of the daemon's clock. */
	readonly time: SharedArrayBuffer;
	readonly keys: TokenKeys;
	readonly publicUrl: string;
	readonly tokenLifetimeMs: number;
	readonly isListening: boolean;
	readonly canReceiveReplies: boolean;
	readonly senderId: string;
	readonly cfbl: FeedbackAddresses | null;
};

export type SigningKeyText = Parameters<typeof importSigningKey>[0];

const {shared, time, ...data} = workerData as RendererData;
const clock = createSharedClock(time);
const cells = new Int32Array(shared);
const port = parentPort as NonNullable<typeof parentPort>;
const composer = new MessageComposer({
	...data,
	links: createLinks({keys: data.keys, publicUrl: data.publicUrl, random: pooledRandom()}),
	renderer: createRenderer(),
	clock,
});

const countGarbage = createGarbage();
const retryMs = 60_000;

const maxCached = 500;
const templates = new LRUCache<string, readonly Variant[]>({max: maxCached});
const signingKeys = new LRUCache<string, readonly SigningKey[]>({max: maxCached});
const problems = new Map<string, string>();
/** By template version, `known` of its last slow job. Jobs that were sent earlier than that are returned unrendered. */
const slow = new LRUCache<string, number>({max: maxCached});
const batches: Array<readonly SentJob[]> = [];
const requested = new Set<string>();

port.on('message', (message: ToRenderer) => {
	if (message.kind === 'work') {
		batches.push(message.jobs);
	} else {
		storeResource(message);
	}
	processBatches();
});

function storeResource({name, value, problem}: Extract<ToRenderer, {kind: 'resource'}>): void {
	requested.delete(name);
	try {
		if (problem !== undefined) {
			problems.set(name, problem);
		} else if (name.startsWith('template:')) {
			templates.set(name, value as Variant[]);
		} else {
			signingKeys.set(name, (value as SigningKeyText[]).map(importSigningKey));
		}
	} catch (error) {
		// A damaged key only defers the messages that it signs; the thread continues.
		problems.set(name, error instanceof Error ? error.message : String(error));
	}
}

/** Processes batches in order, each as soon as everything it needs has arrived. */
function processBatches(): void {
	for (let jobs = batches[0]; jobs; jobs = batches[0]) {
		if (!hasResources(jobs)) {
			return;
		}
		batches.shift();
		const results = jobs.map(makeUnlessSlow);
		problems.clear();
		const transfer = results.flatMap(result => (result?.ok ? [result.message.mail.buffer as ArrayBuffer] : []));
		const bytes = transfer.reduce((sum, {byteLength}) => sum + byteLength, 0);
		port.postMessage({kind: 'done', results} satisfies FromRenderer, transfer);
		countGarbage(bytes);
	}
}

function hasResources(jobs: readonly MakeJob[]): boolean {
	const missing = new Set<string>();
	for (const {recipient, signing} of jobs) {
		for (const name of [`template:${recipient.version_id}`, `dkim:${signing}`]) {
			if (!templates.has(name) && !signingKeys.has(name) && !problems.has(name)) {
				missing.add(name);
			}
		}
	}
	for (const name of missing) {
		if (!requested.has(name)) {
			requested.add(name);
			port.postMessage({kind: 'need', name} satisfies FromRenderer);
		}
	}
	return missing.size === 0;
}

/**
 * A batch holds messages from many senders. If one message was slow, others with its template are returned unrendered,
 * so that they do not delay the rest.
 */
function makeUnlessSlow(job: SentJob): RendererResult {
	if (job.known <= (slow.get(job.recipient.version_id) ?? -1)) {
		Atomics.add(cells, progress.begun, 1);
		return null;
	}
	const began = performance.now();
	const result = makeOrExplain(job);
	if (result.ok || performance.now() - began < quickMs) {
		return result;
	}
	slow.set(job.recipient.version_id, job.known);
	return {...result, wasSlow: true};
}

function makeOrExplain(job: SentJob): MakeResult {
	Atomics.add(cells, progress.begun, 1);
	Atomics.store(cells, progress.working, 1);
	try {
		const ingredients = findIngredients(job);
		return ingredients.ok ? composer.make(job, ingredients, job.renderMs) : {ok: false, unmade: ingredients.unmade};
	} catch (error) {
		return {
			ok: false,
			unmade: {reason: 'make_failed', message: error instanceof Error ? error.message : String(error)},
		};
	} finally {
		Atomics.store(cells, progress.working, 0);
	}
}

/** Returns an error if the stored template or key is unusable. The message waits until that is repaired. */
function findIngredients({
	recipient: {version_id: versionId},
	signing,
}: MakeJob): ({ok: true} & Ingredients) | {ok: false; unmade: Unmade} {
	const [variants, keys] = [templates.get(`template:${versionId}`), signingKeys.get(`dkim:${signing}`)];
	if (!variants || !keys) {
		const message = problems.get(`template:${versionId}`) ?? problems.get(`dkim:${signing}`) ?? '';
		return {ok: false, unmade: {reason: 'not_available', message, waitMs: retryMs, isOurs: true}};
	}
	return {ok: true, variants, signing: keys};
}
