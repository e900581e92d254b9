import {join} from 'node:path';
import {
	type Daemon,
	type Program,
	prepareProgram,
	type Scope,
	type Settings,
	type Welcome,
	welcomeOf,
} from './daemon.ts';
import {makeDataFolder} from './databases.ts';
import {type FakeDns, startFakeDns, type Zone} from './fake-dns.ts';
import {type FakeMx, type FakeMxOptions, startFakeMx} from './fake-mx.ts';
import {loopbackAddress} from './loopback.ts';
import {call} from './shop.ts';
import {waitFor} from './wait.ts';

export type MailHosts = {
	readonly program: Program;
	readonly dns: FakeDns;
	/** The port of all hosts. */
	readonly port: number;
	readonly host: (name: string) => FakeMx;
};

/**
 * Scripted mail hosts by name, each on a loopback address of its own, a DNS that knows them, and the program,
 * delivering to them directly. A host `mx.a.example` serves `a.example` unless the zone says otherwise.
 */
export async function startMailHosts(
	t: Scope,
	hosts: Readonly<Record<string, FakeMxOptions>>,
	zone: Zone = {},
	settings: Settings = {},
): Promise<MailHosts> {
	const started = new Map<string, FakeMx>();
	let port = 0;
	for (const [name, options] of Object.entries(hosts)) {
		const host = await startFakeMx(t, {host: loopbackAddress(), port, ...options});
		port = host.port;
		started.set(name, host);
	}

	const names = [...started.keys()];
	const dns = await startFakeDns(t, {
		...Object.fromEntries(names.map(name => [name.replace(/^mx\./, ''), {mx: [[10, name]] as const}])),
		...Object.fromEntries([...started].map(([name, {host}]) => [name, {a: [host]}])),
		...zone,
	});
	const program = await prepareProgram(t, {
		MAILCTL_HOSTNAME: 'mail.shop.example',
		MAILCTL_PUBLIC_URL: 'https://mail.shop.example',
		MAILCTL_RETURN_PATH_DOMAIN: 'bounce.shop.example',
		MAILCTL_DELIVERY: 'mx',
		MAILCTL_DNS_SERVERS: dns.server,
		MAILCTL_MX_PORT: String(port),
		MAILCTL_ALLOW_PRIVATE_MX: 'true',
		MAILCTL_MTA_STS: 'false',
		MAILCTL_RATE_LIMIT: '0',
		...settings,
	});
	await makeDataFolder(join(program.folder, 'data'));
	return {
		program,
		dns,
		port,
		host(name) {
			const host = started.get(name);
			if (host === undefined) {
				throw new Error(`no host ${name}`);
			}
			return host;
		},
	};
}

type Attempt = {
	readonly at: string;
	readonly host: string | null;
	readonly phase: string;
	readonly code: number | null;
	readonly enhanced: string | null;
	readonly reply: string;
};
export type Shown = {
	readonly message: {readonly status: string; readonly created_at: string};
	readonly events: ReadonlyArray<{
		readonly type: string;
		readonly occurred_at: string;
		readonly detail?: Record<string, unknown>;
	}>;
	readonly recipients: ReadonlyArray<{
		readonly address: string;
		readonly state: string;
		readonly attempts: readonly Attempt[];
		readonly next_attempt_at: string | null;
	}>;
};

/** The shop that the first start made, at a running daemon. */
export type Client = {
	readonly shop: Welcome;
	/** Sends a mail and returns its id. */
	readonly send: (to: string, more?: Readonly<Record<string, unknown>>) => Promise<string>;
	readonly status: (id: string) => Promise<string>;
	readonly until: (ids: string | readonly string[], status: string, limit?: number) => Promise<void>;
	/** `mailctl message show`. */
	readonly show: (id: string) => Promise<Shown>;
	/** What its last try came to, once there was one. */
	readonly tried: (id: string, tries?: number) => Promise<readonly Attempt[]>;
};

export async function clientOf(program: Program, {url}: Pick<Daemon, 'url'>): Promise<Client> {
	const shop = await welcomeOf(program);
	const status = async (id: string) => {
		const {body} = await call(`${url}/v1/messages/${id}`, shop.key);
		return (body as {status: string}).status;
	};
	const show = (id: string) => program.cli<Shown>('message', 'show', id);
	return {
		shop,
		status,
		show,
		async send(to, more = {}) {
			const {from, templateId} = shop;
			const answer = await call(`${url}/v1/messages`, shop.key, {from, to, templateId, ...more});
			if (answer.status !== 202) {
				throw new Error(`${to}: ${answer.status} ${JSON.stringify(answer.body)}`);
			}
			return (answer.body as {id: string}).id;
		},
		async until(ids, wanted, limit) {
			for (const id of [ids].flat()) {
				await waitFor(`${id} is ${wanted}`, async () => (await status(id)) === wanted, limit);
			}
		},
		tried: (id, tries = 1) =>
			waitFor(`${id} was tried`, async () => {
				const {recipients} = await show(id);
				const attempts = recipients[0]?.attempts ?? [];
				return attempts.length >= tries && attempts;
			}),
	};
}

/** A header's value, unfolded; empty where the mail has none. */
export function headerOf(mail: Uint8Array, name: string): string {
	const text = Buffer.from(mail).toString('latin1');
	const head = text.slice(0, text.indexOf('\r\n\r\n')).replace(/\r\n[ \t]+/g, ' ');
	return new RegExp(`^${name}: *(.*)`, 'im').exec(head)?.[1] ?? '';
}
