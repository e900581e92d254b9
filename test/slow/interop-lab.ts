import type {ExecutionContext} from 'ava';
import {type Daemon, type Program, prepareProgram, type Settings} from '../helpers/daemon.ts';
import {startFakeDns} from '../helpers/fake-dns.ts';
import {call, openShop, type Shop} from '../helpers/shop.ts';
import {waitFor} from '../helpers/wait.ts';

/** The fields of `mailctl message show --json` that tests check. */
export type ShownMessage = {
	readonly events: ReadonlyArray<{readonly type: string; readonly detail: Readonly<Record<string, unknown>>}>;
	readonly recipients: ReadonlyArray<{
		readonly address: string;
		readonly state: string;
		readonly next_attempt_at: string | null;
		readonly attempts: ReadonlyArray<{
			readonly n: number;
			readonly at: string;
			readonly host: string | null;
			readonly ip: string | null;
			readonly tls: string | null;
			readonly phase: string;
			readonly code: number | null;
			readonly enhanced: string | null;
			readonly reply: string;
			readonly ms: number;
		}>;
	}>;
};

/** The real program in `mx` mode, with DNS that resolves to servers on loopback addresses. */
export type Lab = {
	readonly program: Program;
	readonly shop: Shop;
	readonly daemon: Daemon;
	/** Sends one message and returns its id. */
	readonly send: (body: Readonly<Record<string, unknown>>) => Promise<string>;
	/** The body of a small message. */
	readonly letter: (to: string) => Readonly<Record<string, unknown>>;
	readonly statusOf: (id: string) => Promise<string>;
	readonly untilStatus: (id: string, status: string) => Promise<void>;
	readonly show: (id: string) => Promise<ShownMessage>;
	readonly isSuppressed: (address: string) => Promise<boolean>;
};

/** Starts the lab; `hosts` are loopback addresses by domain, all with their server on one port. */
export async function startLab(
	t: ExecutionContext,
	port: number,
	hosts: Readonly<Record<string, string>>,
	more: Settings = {},
): Promise<Lab> {
	const dns = await startFakeDns(t, {
		...Object.fromEntries(Object.keys(hosts).map(domain => [domain, {mx: [[10, `mx.${domain}`]] as const}])),
		...Object.fromEntries(Object.entries(hosts).map(([domain, address]) => [`mx.${domain}`, {a: [address]}])),
	});
	const program = await prepareProgram(t, {
		MAILCTL_HOSTNAME: 'mail.shop.example',
		MAILCTL_PUBLIC_URL: 'https://mail.shop.example',
		MAILCTL_RETURN_PATH_DOMAIN: 'bounce.shop.example',
		MAILCTL_RATE_LIMIT: '0',
		MAILCTL_DELIVERY: 'mx',
		MAILCTL_DNS_SERVERS: dns.server,
		MAILCTL_MX_PORT: String(port),
		MAILCTL_ALLOW_PRIVATE_MX: 'true',
		MAILCTL_MTA_STS: 'false',
		...more,
	});
	const shop = await openShop(program, 'test/fixtures/flow/templates');
	const daemon = await program.serve();
	const statusOf = async (id: string) => {
		const {body} = await call(`${daemon.url}/v1/messages/${id}`, shop.key);
		return (body as {status: string}).status;
	};
	return {
		program,
		shop,
		daemon,
		statusOf,
		letter: to => ({
			from: shop.from,
			to,
			templateId: shop.templates.get('alert'),
			data: {customer: {name: 'Zoë'}, order: {number: 'R-1', placed_at: '2026-06-09T10:15:30Z'}},
		}),
		async send(body) {
			const answer = await call(`${daemon.url}/v1/messages`, shop.key, body);
			t.is(answer.status, 202, JSON.stringify(answer.body));
			return (answer.body as {id: string}).id;
		},
		async untilStatus(id, status) {
			await waitFor(`${id} is ${status}`, async () => (await statusOf(id)) === status);
		},
		show: id => program.cli<ShownMessage>('message', 'show', id),
		async isSuppressed(address) {
			const query = `recipient=${encodeURIComponent(address)}`;
			const {body} = await call(`${daemon.url}/v1/suppressions?${query}`, shop.key);
			return (body as {data: unknown[]}).data.length > 0;
		},
	};
}
