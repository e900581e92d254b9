import {once} from 'node:events';
import {createServer, isIPv6, type Server} from 'node:net';
import {ConfigError} from '../config/config-error.ts';
import type {Listen} from '../config/parsers.ts';
import type {Settings} from '../config/settings.ts';

type ListenerSettings = Pick<
	Settings,
	'roles' | 'httpListen' | 'adminListen' | 'httpsListen' | 'httpRedirectListen' | 'inboundListen' | 'submissionListen'
>;

/** An address that the daemon listens on, and the setting that names it. */
export type Listener = Listen & {readonly setting: string};

/** Returns every address that this process listens on with its roles. */
export function configuredListeners(settings: ListenerSettings): Listener[] {
	const {roles, adminListen, inboundListen} = settings;
	const api: ReadonlyArray<readonly [setting: string, listen: Listen | null]> = [
		['MAILCTL_HTTP_LISTEN', settings.httpListen],
		['MAILCTL_ADMIN_LISTEN', adminListen === 'shared' ? null : adminListen],
		['MAILCTL_HTTPS_LISTEN', settings.httpsListen],
		['MAILCTL_HTTP_REDIRECT_LISTEN', settings.httpRedirectListen],
		...settings.submissionListen.map(listen => ['MAILCTL_SUBMISSION_LISTEN', listen] as const),
	];
	const inbound = ['MAILCTL_INBOUND_LISTEN', inboundListen] as const;
	const all = [...(roles.includes('api') ? api : []), ...(roles.includes('inbound') ? [inbound] : [])];
	return all.flatMap(([setting, listen]) => (listen === null ? [] : [{setting, ...listen}]));
}

/**
 * Binds every address and releases it before the daemon creates anything, so that a start that cannot listen leaves
 * nothing behind. Throws ConfigError for the first address that cannot be bound.
 */
export async function checkPorts(listeners: readonly Listener[]): Promise<void> {
	const servers: Server[] = [];
	try {
		for (const listener of listeners) {
			servers.push(await bind(listener, listeners));
		}
	} finally {
		await Promise.all(servers.map(server => new Promise(resolve => server.close(resolve))));
	}
}

async function bind(listener: Listener, all: readonly Listener[]): Promise<Server> {
	const {host, port, setting} = listener;
	const duplicate = all.find(other => other !== listener && other.host === host && other.port === port && port !== 0);
	if (duplicate) {
		const text = `${setting} and ${duplicate.setting} are both ${host}:${port}: use a different port for each`;
		throw new ConfigError([text]);
	}
	const server = createServer(socket => socket.destroy());
	server.listen(port, host);
	try {
		await once(server, 'listening');
	} catch (error) {
		throw explainListenError(error, listener) ?? error;
	}
	return server;
}

/** Formats a bound address as `host:port`. */
export function hostPort({address, port}: {readonly address: string; readonly port: number}): string {
	return `${isIPv6(address) ? `[${address}]` : address}:${port}`;
}

/** Explains to the operator why an address cannot be bound. Returns `null` for any other error. */
export function explainListenError(error: unknown, {setting, host, port}: Listener): ConfigError | null {
	switch (Object(error).code) {
		case 'EADDRINUSE':
			return new ConfigError(
				[`${host}:${port} is in use by another program: stop it or set ${setting} to another port`],
				69,
			);
		case 'EADDRNOTAVAIL':
		case 'ENOTFOUND':
			return new ConfigError([`${host} is not an address of this machine: set ${setting} to one that is`]);
		case 'EACCES':
			return new ConfigError([
				`port ${port} may not be opened by this user: run the service (docs/guide/systemd.md), ` +
					`or set ${setting} to a port above 1023`,
			]);
		default:
			return null;
	}
}
