import {once} from 'node:events';
import {type AddressInfo, createServer, type Server} from 'node:net';
import test, {type ExecutionContext} from 'ava';
import {ConfigError} from '../../src/config/config-error.ts';
import {checkPorts, configuredListeners, explainListenError} from '../../src/daemon/check-ports.ts';

const setting = 'MAILCTL_INBOUND_LISTEN';
const at = (port: number) => ({setting, host: '127.0.0.1', port});

async function listening(t: ExecutionContext, port = 0): Promise<Server> {
	const server = createServer().listen(port, '127.0.0.1');
	await once(server, 'listening');
	t.teardown(() => server.close());
	return server;
}

const portOf = (server: Server) => (server.address() as AddressInfo).port;

/** A free port, which the system chose a moment ago. */
async function freePort(t: ExecutionContext): Promise<number> {
	const server = await listening(t);
	const port = portOf(server);
	server.close();
	return port;
}

test('ports are free again after the check', async t => {
	const port = await freePort(t);
	await checkPorts([at(port), at(0), at(0)]);
	t.is(portOf(await listening(t, port)), port);
});

test('rejects settings with two listeners on one address', async t => {
	const port = await freePort(t);
	const http = {...at(port), setting: 'MAILCTL_HTTP_LISTEN'};
	const error = await t.throwsAsync<ConfigError>(checkPorts([at(port), http]), {instanceOf: ConfigError});
	t.is(error?.exitCode, 78);
	t.regex(error?.message ?? '', /MAILCTL_INBOUND_LISTEN and MAILCTL_HTTP_LISTEN are both 127\.0\.0\.1:/);
});

test('reports a port in use with its setting, and frees the others', async t => {
	const [first, taken] = [await freePort(t), portOf(await listening(t))];
	const error = await t.throwsAsync<ConfigError>(checkPorts([at(first), at(taken)]), {instanceOf: ConfigError});
	t.is(error?.exitCode, 69);
	t.regex(error?.message ?? '', new RegExp(`127.0.0.1:${taken} is in use .* set ${setting} to another port`));
	t.is(portOf(await listening(t, first)), first);
});

test('rejects settings with another machine’s address or a port that needs privileges', async t => {
	const foreign = {...at(0), host: '192.0.2.1'};
	const error = await t.throwsAsync<ConfigError>(checkPorts([foreign]), {instanceOf: ConfigError});
	t.is(error?.exitCode, 78);
	t.regex(error?.message ?? '', new RegExp(`192.0.2.1 is not an address of this machine: set ${setting}`));
	const denied = explainListenError(Object.assign(new Error(), {code: 'EACCES'}), at(25));
	t.is(denied?.exitCode, 78);
	t.regex(denied?.message ?? '', /port 25 may not be opened by this user: .* set MAILCTL_INBOUND_LISTEN/);
	t.is(explainListenError(new Error('no interfaces'), at(25)), null);
});

test('checks only the listeners of the process’s roles', t => {
	const listen = {host: '127.0.0.1', port: 0};
	const all = {
		...{httpListen: listen, httpsListen: listen, httpRedirectListen: listen, inboundListen: listen},
		...{adminListen: listen, submissionListen: [listen, listen]},
	};
	const names = (settings: Partial<Parameters<typeof configuredListeners>[0]>) =>
		configuredListeners({...all, roles: [], ...settings}).map(one => one.setting.slice('MAILCTL_'.length, -7));
	t.deepEqual(names({}), []);
	t.deepEqual(names({roles: ['inbound']}), ['INBOUND']);
	const served = ['HTTP', 'ADMIN', 'HTTPS', 'HTTP_REDIRECT', 'SUBMISSION', 'SUBMISSION'];
	t.deepEqual(names({roles: ['api', 'deliver']}), served);
	const less = {adminListen: 'shared', httpsListen: null, httpRedirectListen: null, submissionListen: []} as const;
	t.deepEqual(names({roles: ['api', 'inbound'], ...less, inboundListen: null}), ['HTTP']);
});
