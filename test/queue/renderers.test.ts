import {randomBytes} from 'node:crypto';
import {setImmediate as turnOfLoop} from 'node:timers/promises';
import {Worker} from 'node:worker_threads';
import test, {type ExecutionContext} from 'ava';
import {simpleParser} from 'mailparser';
import {generateSigningKeys} from '../../src/compose/dkim.ts';
import type {RendererData} from '../../src/daemon/threads/renderer.ts';
import {type Clock, systemClock} from '../../src/kit/clock.ts';
import {type CpuClock, processCpu} from '../../src/kit/work-limit.ts';
import {type FromRenderer, type MakeJob, Renderers, type ToRenderer} from '../../src/queue/renderers.ts';
import {claimedMail} from '../helpers/claimed-mail.ts';
import {newId} from '../helpers/messages.ts';
import {waitFor} from '../helpers/wait.ts';

const templates: Record<string, {subject: string; html: string}> = {
	busy: {subject: 'x', html: 'x'},
	good: {subject: 'Grüße {{ name }}', html: '<p>Hello {{ name }}</p>'},
	hostile: {
		subject: 'x',
		html: '{% for i in (1..100000) %}{% for j in (1..100000) %}{{ i }}{% endfor %}{% endfor %}',
	},
	moody: {subject: 'x', html: '{% for i in (1..n) %}{% for j in (1..n) %}{{ i }}{% endfor %}{% endfor %}'},
	// Liquid checks no limit within one output; with a long text this takes seconds.
	stuck: {subject: 'x', html: `{{ text${' | slugify'.repeat(1000)} | size }}`},
};

const muchData = {text: 'a b '.repeat(50_000)};

const keys = generateSigningKeys();

const rendererThread = '../../src/daemon/threads/renderer.js';

type StartOptions = {
	readonly count?: number;
	readonly limitMs?: number;
	readonly clock?: Clock;
	readonly cpu?: CpuClock;
	/** The module of the next renderer. */
	readonly thread?: () => string;
	readonly gate?: SharedArrayBuffer;
};

function start(
	t: ExecutionContext,
	{
		count = 1,
		limitMs = 20_000,
		clock = systemClock,
		cpu = processCpu,
		thread = () => rendererThread,
		gate,
	}: StartOptions = {},
) {
	const crashes: string[] = [];
	/** How many jobs the renderer had each time it received some. */
	const held: number[] = [];
	const resources: string[] = [];
	const faults: string[] = [];
	const renderers = new Renderers({
		count,
		limitMs,
		clock,
		cpu,
		observer: {
			workerEnded: reason => crashes.push(reason),
			resourceProblem: (_, message) => faults.push(message),
		},
		isUnavailable: error => error instanceof Error && 'code' in error && error.code === 'SQLITE_BUSY',
		spawn(shared) {
			const worker = new Worker(new URL(thread(), import.meta.url), {
				workerData: {
					shared,
					time: new SharedArrayBuffer(8),
					gate,
					keys: {current: 1, keys: {1: randomBytes(32)}},
					publicUrl: 'https://mail.example',
					tokenLifetimeMs: 1000,
					isListening: true,
					canReceiveReplies: true,
					senderId: 'shop1',
					cfbl: null,
				} satisfies RendererData & {gate: unknown},
				resourceLimits: {maxOldGenerationSizeMb: 64},
			});
			let jobs = 0;
			worker.on('message', (message: FromRenderer) => {
				jobs -= message.kind === 'done' ? message.results.length : 0;
			});
			const post = worker.postMessage.bind(worker);
			worker.postMessage = (message: ToRenderer) => {
				if (message.kind === 'work') {
					jobs += message.jobs.length;
					held.push(jobs);
				}
				post(message);
			};
			return worker;
		},
		async resource(name) {
			resources.push(name);
			if (name === 'template:busy' && resources.filter(one => one === name).length === 1) {
				throw Object.assign(new Error('busy'), {code: 'SQLITE_BUSY'});
			}
			if (name === 'dkim:sealed') {
				throw new Error('The secret of dkm_1 in the store is damaged.');
			}
			if (name === 'dkim:damaged') {
				return [{domain: 'shop.example', selector: 'mc1', algorithm: 'rsa-sha256', privateKeyPem: 'none'}];
			}
			if (name.startsWith('dkim:')) {
				return [
					{domain: 'shop.example', selector: 'mc1', algorithm: 'rsa-sha256', privateKeyPem: (await keys).rsa},
				];
			}
			const template = templates[name.slice('template:'.length)];
			return template ? [{id: name, locale: null, text: null, ...template}] : [];
		},
	});
	t.teardown(() => renderers.stop());
	return {renderers, crashes, resources, faults, held};
}

const job = (version_id: string, data: unknown = {name: 'Ada'}): MakeJob => ({
	recipient: claimedMail({
		...{id: newId('rcp'), message_id: newId('msg'), version_id, data: JSON.stringify(data)},
		...{sender_name: 'Shöp', cc: '["grace@b.test"]'},
	}),
	variables: null,
	linkHost: null,
	attachments: [{filename: 'a.txt', contentType: 'text/plain', content: Buffer.from('attached')}],
	signing: 'dkm_1',
	returnPathDomain: 'bounces.example',
});

test('gives busy renderers whole batches, and loads a template and a key once in each', async t => {
	const {renderers, resources, held} = start(t, {count: 2});
	const results = await Promise.all(Array.from({length: 160}, () => renderers.make(job('good'))));
	t.true(results.every(result => result.ok));
	// Sixteen for each, then eight more whenever one has finished eight.
	t.true(held.length <= 25, held.join());
	t.true(resources.length <= 4, resources.join());
	const [first] = results;
	if (!first?.ok) {
		return t.fail();
	}
	const mail = await simpleParser(Buffer.from(first.message.mail));
	t.is(mail.subject, 'Grüße Ada');
	t.is(first.message.subject, 'Grüße Ada');
	t.regex(first.message.envelopeFrom, /^b[0-9a-hjkmnp-tv-z]{44}@bounces\.example$/);
	t.is(mail.attachments[0]?.content.toString(), 'attached');
	t.truthy(mail.headers.get('dkim-signature'));
	const list = mail.headers.get('list') as unknown as {unsubscribe: {url: string; mail: string}};
	t.regex(list.unsubscribe.url, /^https:\/\/mail\.example\/unsubscribe\?token=/);
	t.regex(list.unsubscribe.mail, /^u[0-9a-z]{44}@bounces\.example/);
});

test('gives a renderer one job with large attachments at a time, but many others', async t => {
	const {renderers, held} = start(t);
	const attachment = {filename: 'a.bin', contentType: 'application/octet-stream', content: Buffer.alloc(600_000)};
	const large = () => renderers.make({...job('good'), attachments: [attachment]});
	const results = await Promise.all(Array.from({length: 5}, large));
	t.deepEqual(held, [1, 1, 1, 1, 1]);
	results.push(...(await Promise.all(Array.from({length: 16}, () => renderers.make(job('good'))))));
	t.deepEqual(held.slice(5), [8, 16]);
	t.true(results.every(result => result.ok));
});

test('batches what arrives while a renderer is busy', async t => {
	const gate = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
	const {renderers, held} = start(t, {
		thread: () => './held-thread.js',
		gate: gate.buffer as SharedArrayBuffer,
	});
	const made = Array.from({length: 8}, () => renderers.make(job('good')));
	await waitFor('the first batch', () => held.length === 1);
	for (let n = 0; n < 5; n++) {
		made.push(renderers.make(job('good')));
		await turnOfLoop();
	}
	Atomics.store(gate, 0, 1);
	Atomics.notify(gate, 0);
	await Promise.all(made);
	t.deepEqual(held, [8, 5]);
});

test('fails only the message of a template that runs forever', async t => {
	const {renderers} = start(t);
	const [bad, ...good] = await Promise.all([
		renderers.make(job('hostile')),
		...Array.from({length: 20}, () => renderers.make(job('good'))),
	]);
	t.like(bad, {ok: false, unmade: {reason: 'render_limit'}});
	t.true(good.every(result => result.ok));
});

/**
 * Advances only while this process runs: on a busy machine 15 seconds may pass without the one second of CPU time
 * that is allowed.
 */
const ofCpu: Clock = {...systemClock, monotonic: processCpu};

/** Lets time pass without CPU time once a message is in progress. The gate opens a few readings later. */
function starving(ms: number) {
	const gate = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
	let [now, looks] = [0, 0];
	const monotonic = () => {
		looks += now > 0 ? 1 : 0;
		if (looks === 3) {
			Atomics.store(gate, 0, 1);
			Atomics.notify(gate, 0);
		}
		return now;
	};
	const cpu = () => {
		now = ms;
		return 0;
	};
	return {gate: gate.buffer as SharedArrayBuffer, cpu, clock: {...systemClock, monotonic}};
}

test('renders a message that exceeds the time limit for lack of CPU time', async t => {
	const {renderers, crashes} = start(t, {
		thread: () => './held-thread.js',
		limitMs: 2000,
		...starving(10_000),
	});
	t.like(await renderers.make(job('good')), {ok: true});
	t.deepEqual(crashes, []);
});

test('postpones a message that gets no CPU time for very long, and renders others', async t => {
	const threads = ['./held-thread.js'];
	const {renderers, crashes} = start(t, {
		thread: () => threads.shift() ?? rendererThread,
		limitMs: 2000,
		...starving(40_000),
	});
	const [slow, ...good] = await Promise.all(Array.from({length: 20}, () => renderers.make(job('good'))));
	t.like(slow, {ok: false, unmade: {waitMs: 60_000}});
	t.true(good.every(result => result.ok));
	t.is(crashes.length, 1);
});

test('fails on a removed template, retries an unavailable one, and postpones on a damaged key', async t => {
	const {renderers, crashes, faults} = start(t);
	const [gone, busy, sealed, damaged, good] = await Promise.all([
		renderers.make(job('gone')),
		renderers.make(job('busy')),
		renderers.make({...job('good'), signing: 'sealed'}),
		renderers.make({...job('good'), signing: 'damaged'}),
		renderers.make(job('good')),
	]);
	t.deepEqual(gone, {ok: false, unmade: {reason: 'template_gone', message: 'The template version has no variant.'}});
	t.true(busy?.ok, JSON.stringify(busy));
	t.like(sealed, {
		ok: false,
		unmade: {message: 'The secret of dkm_1 in the store is damaged.', waitMs: 60_000, isOurs: true},
	});
	t.like(damaged, {ok: false, unmade: {waitMs: 60_000, isOurs: true}});
	t.is(faults.length, 2);
	t.true(good?.ok);
	t.deepEqual(crashes, []);
});

test('waits for a renderer that cannot start, and restarts it after a delay', async t => {
	let broken = true;
	const {renderers, crashes} = start(t, {
		thread: () => (broken ? './broken-thread.js' : rendererThread),
		// The thread has not lived long, however slowly it started.
		clock: {...systemClock, monotonic: () => 0},
	});
	const made = renderers.make(job('good'));
	await waitFor('the end of the first', () => crashes.length === 1);
	broken = false;
	t.true((await made).ok);
	t.is(crashes.length, 1);
});

const bad = {n: 100_000};
const isLimit = (result: {ok: boolean; unmade?: object}): boolean => {
	const {reason, waitMs} = (result.unmade ?? {}) as {reason?: string; waitMs?: number};
	return reason === 'render_limit' && waitMs === undefined;
};

test('renders other messages of a template while some exceed the render limit', async t => {
	// No time passes, so that no message gets its turn because it has waited long.
	const {renderers} = start(t, {clock: {...systemClock, monotonic: () => 0}});
	const order: string[] = [];
	const make = async (name: string, ...args: Parameters<typeof job>) => {
		const result = await renderers.make(job(...args));
		order.push(name);
		return result;
	};
	const [one, two, ...good] = await Promise.all([
		make('bad', 'moody', bad),
		make('bad', 'moody', bad),
		...Array.from({length: 12}, () => make('good', 'moody', {n: 2})),
		...Array.from({length: 20}, () => make('other', 'good')),
	]);
	t.true([one, two].every(result => result && isLimit(result)));
	t.true(good.every(({ok}) => ok));
	t.true(order.lastIndexOf('other') < order.lastIndexOf('bad'), order.join());
	t.true(order.lastIndexOf('good') < order.lastIndexOf('bad'), order.join());

	const later = await Promise.all(Array.from({length: 30}, () => renderers.make(job('moody', {n: 2}))));
	t.true(
		later.every(({ok}) => ok),
		'the template takes no turns any more',
	);
});

test('does not delay others for a template that keeps timing out, and postpones its waiting messages', async t => {
	const {renderers} = start(t);
	let ended = 0;
	const hostile = Array.from({length: 60}, async () => {
		const result = await renderers.make(job('hostile'));
		ended++;
		return result;
	});
	await hostile[0];
	const good = await Promise.all(Array.from({length: 20}, () => renderers.make(job('good'))));
	t.true(good.every(({ok}) => ok));
	const before = ended;
	await renderers.stop();
	const ends = (await Promise.all(hostile)).map(result => (result.ok ? null : result.unmade));
	const putOff = ends.filter(unmade => unmade?.reason === 'render_limit' && unmade.waitMs !== undefined);
	t.true(putOff.length >= 20, String(putOff.length));
	t.true(putOff.every(unmade => unmade?.isOurs && (unmade.waitMs ?? 0) <= 60_000));
	t.true(before < 60, 'the others waited for their turn');
});

// Serial: the renderers of the other tests would use up its CPU time.
test.serial('fails messages that exceed the limit after two killed renderers, and renders all others', async t => {
	const {renderers, crashes} = start(t, {limitMs: 1000, clock: ofCpu});
	const [one, two, ...good] = await Promise.all([
		renderers.make(job('stuck', muchData)),
		renderers.make(job('stuck', muchData)),
		...Array.from({length: 10}, () => renderers.make(job('stuck', {text: 'a b'}))),
		...Array.from({length: 20}, () => renderers.make(job('good'))),
	]);
	t.true([one, two].every(result => result && isLimit(result)));
	t.true(good.every(({ok}) => ok));
	t.deepEqual(crashes, new Array(4).fill('renderer: a message took longer than 1000 ms'));
});
