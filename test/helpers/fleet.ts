import {randomBytes} from 'node:crypto';
import {setTimeout as delay} from 'node:timers/promises';
import type {ExecutionContext} from 'ava';
import {type Daemon, type Program, prepareProgram, type Settings} from './daemon.ts';
import {newLocation} from './databases.ts';
import {startMx} from './delivering-to.ts';
import type {FakeMx} from './fake-mx.ts';
import {call, eachOf, openShop, type Shop} from './shop.ts';
import {startTcpProxy, type TcpProxy} from './tcp-proxy.ts';
import {waitFor} from './wait.ts';

/** A machine of its own: data folder, way to the database, clock. */
export type FleetNode = {
	readonly program: Program;
	/** Its way to the database. */
	readonly proxy: TcpProxy;
	readonly start: () => Promise<void>;
	readonly daemon: () => Daemon;
	/** Sends that go elsewhere while it is away. */
	away: boolean;
};

/** Several nodes on one PostgreSQL, each with all roles, and the host that all their mail goes to. */
export type Fleet = {
	readonly url: string;
	readonly mx: FakeMx;
	readonly shop: Shop;
	readonly nodes: readonly FleetNode[];
	/**
	 * Sends more orders by all nodes that are not away, each with its key until it is answered, then once more
	 * elsewhere.
	 */
	readonly order: (count: number) => Promise<void>;
	/** Sends orders so until `enough`, so that there is load for as long as a test needs it. */
	readonly orderUntil: (enough: () => boolean) => Promise<void>;
	/** The message ids that each order was answered. */
	readonly answers: ReadonlyMap<string, ReadonlySet<string>>;
	/** Waits until every order has arrived; answers how many mails came more than once. */
	readonly arrived: () => Promise<number>;
};

export const maxSessions = 4;
const width = 8;
/** How long the host takes a mail: some are always under way. */
const answerMs = 200;
/** More than all nodes' sessions together have under way. */
const maxWaiting = 200;
const requestLimitMs = 15_000;
const arrivalLimitMs = 180_000;

/** `database`: an empty one; absent: a new one of the run's server. `rcpt`: what the host says to recipients. */
export async function startFleet(
	t: ExecutionContext,
	machines: readonly Settings[],
	{database, rcpt}: {readonly database?: string; readonly rcpt?: () => string | undefined} = {},
): Promise<Fleet> {
	const location = database === undefined ? await newLocation(t, 'postgres') : {url: database};
	const url = 'url' in location ? location.url : '';
	const {mx, settings} = await startMx(t, {
		...(rcpt && {rcpt}),
		dot(_line, connection) {
			void delay(answerMs, undefined, {ref: false}).then(() => {
				connection.say('250 2.0.0 Ok\r\n');
				connection.drop();
			});
			return {do: 'take'};
		},
	});
	const shared = {
		...settings,
		MAILCTL_SECRET_KEY: randomBytes(32).toString('base64'),
		MAILCTL_MAX_SESSIONS: String(maxSessions),
		MAILCTL_MAKERS: '1',
		MAILCTL_SENDERS: '1',
	};
	const shop = await openShop(
		await prepareProgram(t, {...shared, MAILCTL_DATABASE_URL: url}),
		'test/fixtures/flow/templates',
	);
	const nodes: FleetNode[] = [];
	for (const machine of machines) {
		const {hostname: host, port} = new URL(url);
		const proxy = await startTcpProxy(t, {host, port: Number(port)});
		const through = new URL(url);
		through.port = String(proxy.port);
		const program = await prepareProgram(t, {...shared, MAILCTL_DATABASE_URL: through.href});
		let daemon: Daemon | null = null;
		nodes.push({
			program,
			proxy,
			away: true,
			async start() {
				daemon = await program.serve(machine);
				this.away = false;
			},
			daemon() {
				if (daemon === null) {
					throw new Error('the node was never started');
				}
				return daemon;
			},
		});
	}

	const answers = new Map<string, Set<string>>();
	let turn = 0;
	/** The next node that is not away. */
	async function next(): Promise<FleetNode> {
		return await waitFor('a node', () => {
			turn++;
			return nodes.filter(({away}) => !away).find((_, n, {length}) => n === turn % length);
		});
	}
	async function send(to: string): Promise<boolean> {
		const node = await next();
		const response = await fetch(`${node.daemon().url}/v1/messages`, {
			method: 'POST',
			headers: {
				authorization: `Bearer ${shop.key}`,
				'content-type': 'application/json',
				'idempotency-key': `order ${to}`,
			},
			body: JSON.stringify({from: shop.from, to, templateId: shop.templates.get('alert')}),
			signal: AbortSignal.timeout(requestLimitMs),
		}).catch(() => null);
		const body =
			response?.status === 202 ? ((await response.json().catch(() => null)) as {id: string} | null) : null;
		if (response !== null && ![202, 503].includes(response.status)) {
			throw new Error(`${response.status} for ${to}: ${await response.text()}`);
		}
		const seen = answers.get(to) ?? new Set();
		answers.set(to, body ? seen.add(body.id) : seen);
		return body !== null;
	}
	async function order(count: number): Promise<void> {
		const first = answers.size;
		const orders = Array.from({length: count}, (_, n) => `user-${first + n}@a.example`);
		await eachOf(orders, width, async to => {
			for (let answered = 0; answered < 2; ) {
				answered += (await send(to)) ? 1 : 0;
			}
		});
	}
	return {
		url,
		mx,
		shop,
		nodes,
		answers,
		order,
		async orderUntil(enough) {
			while (!enough()) {
				// Not more than can soon be delivered, or what comes after would wait behind it.
				await waitFor('fewer orders wait', () => enough() || answers.size - mx.received.length < maxWaiting);
				if (!enough()) {
					await order(width);
				}
			}
		},
		async arrived() {
			const reached = () => new Set(mx.received.map(({to: [to]}) => to)).size;
			await waitFor('every order has arrived', () => reached() === answers.size, arrivalLimitMs);
			return mx.received.length - answers.size;
		},
	};
}

/** What a node answers to a send now, and how long that takes. */
export async function trySend({shop}: Fleet, node: FleetNode): Promise<{status: number; ms: number}> {
	const began = performance.now();
	const {status} = await call(`${node.daemon().url}/v1/messages`, shop.key, {
		from: shop.from,
		to: 'nobody@b.example',
		templateId: shop.templates.get('alert'),
	});
	return {status, ms: performance.now() - began};
}

export async function readiness(node: FleetNode): Promise<{status: number; ms: number}> {
	const began = performance.now();
	const {status} = await fetch(`${node.daemon().url}/readyz`);
	return {status, ms: performance.now() - began};
}
