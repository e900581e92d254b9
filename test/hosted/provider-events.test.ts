import test from 'ava';
import {createApi} from '../../src/api/server.ts';
import {providerEventRoutes} from '../../src/hosted/provider-events.ts';
import {systemClock} from '../../src/kit/clock.ts';
import {createIdSource} from '../../src/mail/ids.ts';
import type {ProviderPostEnd} from '../../src/mail/provider.ts';

/** The route with an intake that knows one URL and has the given outcome. */
function start(take: (body: Buffer) => Promise<Exclude<ProviderPostEnd, 'unknown'>>) {
	const ends: string[] = [];
	let accepts = true;
	const api = createApi({
		...{newId: createIdSource(systemClock), version: '0.0.0', pages: null, trustProxy: []},
		...{isUnavailable: () => false, report: () => undefined},
		routes: [
			providerEventRoutes({
				intake: {
					async find(provider, token) {
						return provider === 'ses' && token === 'right'
							? {id: 'smh_1', workspace_id: 'wrk_1'}
							: undefined;
					},
					take: async (_smarthost, {body}) => await take(body),
				},
				observer: {
					providerPosted: (provider, end) => ends.push(`${provider} ${end}`),
					providerPostFailed: (provider, error) =>
						ends.push(`${provider} failed: ${(error as Error).message}`),
				},
				mayAccept: () => accepts,
				// However long the test takes, its requests fall within one minute.
				clock: {...systemClock, monotonic: () => 0},
			}),
		],
	});
	const post = async (path: string, payload: string | Buffer = '{}') => {
		const {statusCode, body} = await api.inject({
			...{method: 'POST', url: `/v1/provider-events/${path}`, payload, headers: {'content-type': 'text/plain'}},
		});
		return {statusCode, body};
	};
	function stopAccepting(): void {
		accepts = false;
	}
	return {ends, post, stopAccepting};
}

test('each outcome has its response; a body of any type is read as bytes', async t => {
	let body = '';
	const {post, ends, stopAccepting} = start(async given => {
		body = given.toString();
		if (body === 'broken') {
			throw new Error('no certificate');
		}
		return body === 'forged' || body === 'unreadable' ? body : 'taken';
	});
	t.deepEqual(await post('ses/right', '{"Type":"x"}'), {statusCode: 200, body: '{"received":true}'});
	t.is(body, '{"Type":"x"}');
	t.deepEqual(await post('ses/right', 'forged'), {statusCode: 401, body: '{"error":"Unauthorized"}'});
	t.is((await post('ses/right', 'unreadable')).statusCode, 400);
	t.is((await post('ses/right', 'broken')).statusCode, 503);
	t.is((await post('ses/wrong')).statusCode, 404);
	t.is((await post('nobody/right')).statusCode, 404);
	t.deepEqual(ends, [
		'ses taken',
		'ses forged',
		'ses unreadable',
		'ses failed: no certificate',
		'ses unknown',
		'nobody unknown',
	]);
	stopAccepting();
	t.is((await post('ses/right')).statusCode, 503);
	t.is(ends.length, 6);
});

test('looks up the URL before reading the body, and rejects a large body', async t => {
	const {post, ends} = start(async () => 'taken');
	t.is((await post('ses/wrong', Buffer.alloc(5 * 1024 * 1024))).statusCode, 404);
	t.is((await post('ses/right', Buffer.alloc(5 * 1024 * 1024))).statusCode, 413);
	t.is((await post('ses/right', Buffer.alloc(4 * 1024 * 1024))).statusCode, 200);
	t.deepEqual(ends, ['ses unknown', 'ses taken']);
});

test('a client that guesses URLs gets 429 after a while, but a valid URL still works', async t => {
	const {post} = start(async () => 'taken');
	for (let n = 0; n < 120; n++) {
		t.is((await post('ses/wrong')).statusCode, 404);
	}
	t.is((await post('ses/wrong')).statusCode, 429);
	t.is((await post('ses/right')).statusCode, 200);
});
