import {readFile} from 'node:fs/promises';
import {Agent, request} from 'node:http';
import {connect} from 'node:net';
import {join} from 'node:path';
import process from 'node:process';
import test, {type ExecutionContext} from 'ava';
import fc from 'fast-check';
import {isId} from '../../../src/mail/ids.ts';
import {openStore} from '../../../src/store/store.ts';
import {prepareProgram} from '../../helpers/daemon.ts';
import {type ApiDocument, type Described, operationsOf} from '../../helpers/described.ts';
import {startFakeDns} from '../../helpers/fake-dns.ts';
import {type GarbageRequest, garbageRequests} from '../../helpers/garbage.ts';
import {fullLoad, scaled} from '../../helpers/load-scale.ts';
import {call, eachOf, openShop, type Shop} from '../../helpers/shop.ts';

const duration = Number(process.env.GARBAGE_SECONDS ?? scaled(120)) * 1000;
/** The warm-up after which the heaps of all threads keep their size. */
const warmUp = duration / 2;
const perRound = 200;
const width = 8;
const maxRounds = 100;
const maxGrowth = 30;
const maxShortly = 350;
const answerLimit = 60_000;

type Answered = {readonly status: number; readonly text: string; readonly headers: Readonly<Record<string, unknown>>};

test('minutes of garbage requests cause no 500, store nothing refused, and leak no memory', async t => {
	t.timeout(duration + 600_000);
	const seed = Number(process.env.GARBAGE_SEED ?? Date.now() % 2 ** 31);
	t.log(`GARBAGE_SEED=${seed}`);
	const dns = await startFakeDns(t, {});
	const program = await prepareProgram(t, {MAILCTL_RATE_LIMIT: '0', MAILCTL_DNS_SERVERS: dns.server});
	const shop = await openShop(program, 'test/fixtures/flow/templates');
	await program.cli('topic', 'create', '--code', 'receipts', '--name', 'Receipts');
	const daemon = await program.serve();
	const texts = await ingredients(daemon.url, shop);
	const routes = await describedRoutes(daemon.url, shop);
	const agent = new Agent({keepAlive: true, maxSockets: width});
	t.teardown(() => agent.destroy());

	const made = new Map<string, number>();
	const statuses = new Map<number, number>();
	const garbage = garbageRequests({routes, key: shop.key, texts});
	const began = performance.now();
	const samples: Sample[] = [];
	let rounds = 0;
	// On a busy machine few requests fit into the time: it goes on until one of them is a right send.
	for (; performance.now() - began < duration || (!statuses.has(202) && rounds < maxRounds); rounds++) {
		await eachOf(fc.sample(garbage, {seed: seed + rounds, numRuns: perRound}), width, async one => {
			const answered = await send(agent, daemon.url, one);
			const shown = `${one.method} ${one.target} ${Buffer.from(one.body ?? [])
				.toString()
				.slice(0, 500)}`;
			checkAnswer(t, shown, one, answered);
			statuses.set(answered.status, (statuses.get(answered.status) ?? 0) + 1);
			countMade(made, one, answered);
		});
		await eachOf(fc.sample(fc.uint8Array({maxLength: 200}), {seed: seed + rounds, numRuns: 10}), 2, bytes =>
			sendBytes(daemon.url, bytes),
		);
		samples.push({at: performance.now() - began, megabytes: await residentMegabytes(daemon.pid)});
	}

	const window = duration / 6;
	// On a busy machine a round may take longer than that.
	const warm = samples.find(({at}) => at >= warmUp)?.at ?? Number.POSITIVE_INFINITY;
	const memory = lowest(samples, warmUp, Math.max(warm, warmUp + window));
	const grown = lowest(samples, duration - window, Number.POSITIVE_INFINITY) - memory;
	t.log(
		`${rounds * perRound} requests, ${[...statuses]
			.toSorted()
			.map(([status, n]) => `${status}: ${n}`)
			.join(', ')}`,
	);
	t.log(`resident memory grew by ${grown} MB from ${memory} MB`);
	// In seconds the heaps still grow to the sizes that they keep.
	t.true(Number.isFinite(memory), 'its memory was looked at');
	t.true(fullLoad ? grown < maxGrowth : memory + grown < maxShortly, `${grown} MB from ${memory} MB`);
	t.is((await fetch(`${daemon.url}/readyz`)).status, 200);
	t.is(await daemon.stop(), 0);
	t.notRegex(await program.log(), /request_failed|"level":"fatal"|UnhandledPromise/);
	t.true((statuses.get(202) ?? 0) > 0, 'some were right');
	t.is(await countMessages(program.folder), (made.get('messages') ?? 0) + 1);
});

/** Every public route. The examples name the shop's own template, so that some sends are valid. */
async function describedRoutes(url: string, {templates}: Shop): Promise<Described[]> {
	const text = await (await fetch(`${url}/openapi.json`)).text();
	const [template = ''] = templates.values();
	const document = JSON.parse(text.replaceAll(/tpl_01[0-9a-z]{24}/g, template)) as ApiDocument;
	return operationsOf(document).filter(({operation}) => !operation.tags.includes('Operation'));
}

async function countMessages(folder: string): Promise<number> {
	const store = await openStore({file: join(folder, 'data', 'mailctl.db')});
	const [row] = await store.reader('messages').count<Array<{n: number}>>('* as n');
	await store.close();
	return row?.n ?? 0;
}

/** Ids of existing objects, for paths and bodies. */
async function ingredients(url: string, {from, key, templates}: Shop): Promise<string[]> {
	// Not the template of the examples: what stands here is deleted before long.
	const template = [...templates.values()].at(-1) ?? '';
	const send = await call(`${url}/v1/messages`, key, {from, to: 'user@example.org', templateId: template});
	const {id} = send.body as {id: string};
	return [id, from, key, template, 'other@example.org', 'complained+x@simulator.test', 'receipts', 'de-AT'];
}

function send(agent: Agent, url: string, {method, target, headers, body}: GarbageRequest): Promise<Answered> {
	return new Promise((resolve, reject) => {
		const outgoing = request(
			url,
			{
				method,
				path: target,
				agent,
				headers: {...headers, ...(body && {'content-length': body.length})},
				timeout: answerLimit,
			},
			response => {
				const {statusCode = 0, headers: answered} = response;
				if (answered['content-type']?.startsWith('text/event-stream')) {
					// A stream does not end by itself: its head is the answer.
					response.destroy();
					resolve({status: statusCode, headers: answered, text: ''});
					return;
				}
				const chunks: Buffer[] = [];
				response.on('data', chunk => chunks.push(chunk));
				response.on('error', reject);
				response.on('end', () =>
					resolve({
						status: statusCode,
						headers: answered,
						text: Buffer.concat(chunks).toString(),
					}),
				);
			},
		);
		outgoing.on('timeout', () => outgoing.destroy(new Error(`no answer to ${method} ${target}`)));
		// A refused body ends the connection under what is still being sent: that is an answer too.
		outgoing.on('error', error =>
			'code' in error && /ECONNRESET|EPIPE/.test(String(error.code))
				? resolve({status: 0, headers: {}, text: ''})
				: reject(error),
		);
		outgoing.end(body);
	});
}

function checkAnswer(t: ExecutionContext, shown: string, {method, target}: GarbageRequest, answered: Answered): void {
	const {status, headers, text} = answered;
	if (status === 0) {
		return;
	}
	if (status === 500 || status === 503 || status < 200) {
		t.fail(`${status} ${shown}\n${text}`);
	}
	if (!isId('req', String(headers['x-request-id']))) {
		t.fail(`no X-Request-Id: ${status} ${shown}`);
	}
	if (target.startsWith('/v1/') && status >= 400 && status !== 401 && method !== 'HEAD') {
		const {error} = JSON.parse(text) as {error?: {code?: string; request_id?: string}};
		if (typeof error?.code !== 'string' || error.request_id !== headers['x-request-id']) {
			t.fail(`no envelope: ${status} ${shown}\n${text}`);
		}
	}
}

/** The objects created according to the responses. */
function countMade(made: Map<string, number>, {method, target}: GarbageRequest, {status, text}: Answered): void {
	const add = (what: string, n: number) => made.set(what, (made.get(what) ?? 0) + n);
	const [path] = target.split('?');
	if (method === 'POST' && /^\/v1\/messages(\/[^/]+\/resend)?$/.test(path ?? '') && status === 202) {
		add('messages', 1);
	} else if (method === 'POST' && path === '/v1/messages/batch' && status === 200) {
		const {data} = JSON.parse(text) as {data: Array<{status: string}>};
		add('messages', data.filter(one => one.status === 'accepted').length);
	}
}

/** Bytes that are not HTTP: whatever the response, the connection must close. */
function sendBytes(url: string, bytes: Uint8Array): Promise<void> {
	const {hostname, port} = new URL(url);
	return new Promise(resolve => {
		const socket = connect(Number(port), hostname, () => socket.end(bytes));
		socket.on('error', () => undefined);
		socket.on('close', () => resolve());
		socket.resume();
	});
}

type Sample = {readonly at: number; readonly megabytes: number};

/**
 * The minimum over a span of time: it is higher between garbage collections, and while a template is compiled in a
 * thread of its own.
 */
function lowest(samples: readonly Sample[], from: number, to: number): number {
	return Math.min(...samples.filter(({at}) => at >= from && at <= to).map(({megabytes}) => megabytes));
}

async function residentMegabytes(pid: number): Promise<number> {
	const status = await readFile(`/proc/${pid}/status`, 'utf8');
	return Math.round(Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) / 1024);
}
