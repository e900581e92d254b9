import test, {type ExecutionContext} from 'ava';
import {ProviderClient, ProviderHostError} from '../../src/net/provider-client.ts';
import {type ApiAnswer, startFakeApi} from '../helpers/fake-api.ts';
import {freePort} from '../helpers/free-port.ts';

const unknown = async () => ({kind: 'nxdomain'}) as const;
const url = new URL('https://api.test/');

function clientOf(t: ExecutionContext, at: string, addresses?: readonly string[]) {
	const [host = '', port] = at.split(':');
	const a = addresses ? async () => ({kind: 'found', records: addresses}) as const : unknown;
	const standIns = new Map(addresses ? [] : [['ses', {host, port: Number(port)}] as const]);
	const client = new ProviderClient({resolver: {a, aaaa: unknown}, standIns, userAgent: 'test', limitMs: 60_000});
	const failed = async () =>
		await t.throwsAsync<ProviderHostError>(client.send('ses', url, {method: 'POST', body: Buffer.from('mail')}), {
			instanceOf: ProviderHostError,
		});
	return {client, failed};
}

test('reuses a connection for the next request', async t => {
	const api = await startFakeApi(t, () => ({status: 200, body: 'ok'}));
	const {client} = clientOf(t, api.at);
	for (let n = 0; n < 3; n++) {
		t.is((await client.send('ses', url, {method: 'POST', body: Buffer.from('mail')})).body, 'ok');
	}
	t.is(api.requests.length, 3);
	t.is(api.connections.size, 1);
});

test('reports on failure whether the whole request was sent', async t => {
	let answer: ApiAnswer = 'reset';
	const api = await startFakeApi(t, () => answer);
	const {failed} = clientOf(t, api.at);
	t.true((await failed())?.isSent, 'no answer came');
	answer = {status: 200, body: 'x'.repeat(5 * 1024 * 1024)};
	t.true((await failed())?.isSent, 'the answer was too long');
	t.false((await clientOf(t, `127.0.0.1:${await freePort()}`).failed())?.isSent, 'nothing listens');
});

test('refuses to connect to a private address or without any address', async t => {
	const api = await startFakeApi(t, () => ({status: 200, body: 'ok'}));
	const inward = await clientOf(t, api.at, ['127.0.0.1']).failed();
	t.like(inward, {isSent: false, message: 'api.test: it has the address 127.0.0.1, which is not public'});
	t.regex((await clientOf(t, api.at, []).failed())?.message ?? '', /it has no address in DNS/);
	t.is(api.requests.length, 0);
});
