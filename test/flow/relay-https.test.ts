import {readFile} from 'node:fs/promises';
import path from 'node:path';
import test, {type ExecutionContext} from 'ava';
import type {ProviderName} from '../../src/mail/provider.ts';
import {logged, prepareProgram} from '../helpers/daemon.ts';
import {type ApiAnswer, type ApiRequest, formOf, isSignedForSes, startFakeApi} from '../helpers/fake-api.ts';
import {startFakeMx} from '../helpers/fake-mx.ts';
import {clientOf} from '../helpers/mail-hosts.ts';
import {type Added, echoed} from '../helpers/provider-lab.ts';
import {eventOf, postsOf, startFakeSns} from '../helpers/provider-posts.ts';
import {waitFor} from '../helpers/wait.ts';

const secret = 'wJalr/UtnFEMI+K7MDENG';
const token = 'key-0123456789';

/** The request to each provider, its response to an accepted message, and its other responses. */
const providers = {
	ses: {
		url: `ses://AKIDEXAMPLE:${encodeURIComponent(secret)}@eu-west-1`,
		path: '/v2/email/outbound-emails',
		isProven: (request: ApiRequest) => isSignedForSes(request, secret),
		mailIn: ({body}: ApiRequest) => {
			const {Destination, Content} = JSON.parse(body.toString());
			return {
				to: Destination.ToAddresses.join(),
				mail: Buffer.from(Content.Raw.Data, 'base64').toString('latin1'),
			};
		},
		taken: (id: string): ApiAnswer => ({status: 200, body: {MessageId: id}}),
		throttled: {status: 429, body: {message: 'Maximum sending rate exceeded.'}},
		refused: {status: 403, body: {message: `The security token is invalid, not ${secret}`}},
		bad: {status: 400, headers: {'x-amzn-errortype': 'MessageRejected'}, body: {message: 'It contains a virus'}},
	},
	mailgun: {
		url: `mailgun+https://${token}@api.eu.mailgun.net/mg.shop.example`,
		path: '/v3/mg.shop.example/messages.mime',
		isProven: ({headers}: ApiRequest) => headers.authorization === `Basic ${btoa(`api:${token}`)}`,
		mailIn: (request: ApiRequest) => {
			const {to = '', message = ''} = formOf(request);
			return {to, mail: message};
		},
		taken: (id: string): ApiAnswer => ({status: 200, body: {id: `<${id}>`, message: 'Queued. Thank you.'}}),
		throttled: {status: 429, body: {message: 'Too many requests'}},
		refused: {status: 401, body: `Forbidden ${token}`},
		bad: {status: 400, body: {message: 'The message contains a virus'}},
	},
	postmark: {
		url: `postmark+https://${token}@api.postmarkapp.com`,
		path: '/email',
		isProven: ({headers}: ApiRequest) => headers['x-postmark-server-token'] === token,
		mailIn: ({body}: ApiRequest) => {
			const {To: to, Headers, Metadata, TextBody} = JSON.parse(body.toString());
			const fields = [
				...Headers.map(({Name, Value}: Record<string, string>) => `${Name}: ${Value}\r\n`),
				...Object.entries(Metadata).map(([name, value]) => `X-PM-Metadata-${name}: ${value}\r\n`),
			];
			return {to, mail: `${fields.join('')}\r\n${TextBody}\r\n`};
		},
		taken: (id: string): ApiAnswer => ({status: 200, body: {ErrorCode: 0, Message: 'OK', MessageID: id}}),
		throttled: {status: 429, body: {ErrorCode: 429, Message: 'Rate limit exceeded'}},
		refused: {status: 401, body: {ErrorCode: 10, Message: `No valid Server token: ${token}`}},
		bad: {status: 422, body: {ErrorCode: 300, Message: 'The message contains a virus'}},
	},
} satisfies Partial<Record<ProviderName, unknown>>;

type Name = keyof typeof providers;

async function start(t: ExecutionContext, name: Name, answer: (n: number, to: string) => ApiAnswer) {
	const provider = providers[name];
	const api = await startFakeApi(t, (request, n) => {
		t.is(`${request.method} ${request.path}`, `POST ${provider.path}`);
		t.true(provider.isProven(request), 'the key or the signature is right');
		return answer(n, provider.mailIn(request).to);
	});
	const sns = name === 'ses' ? await startFakeSns(t) : undefined;
	const program = await prepareProgram(t, {
		MAILCTL_DELIVERY: 'relay',
		MAILCTL_RELAY_URL: provider.url,
		MAILCTL_PROVIDER_HOSTS: [`${name}=${api.at}`, ...(sns ? [`sns=${sns.at}`] : [])].join(),
		MAILCTL_HOSTNAME: 'mail.shop.example',
		MAILCTL_RETRY_SCHEDULE: '200ms*',
		MAILCTL_RATE_LIMIT: '0',
	});
	const daemon = await program.serve();
	const client = await clientOf(program, daemon);
	return {api, sns, program, daemon, client, mailIn: provider.mailIn};
}

for (const name of Object.keys(providers) as Name[]) {
	const {taken, throttled, refused, bad} = providers[name];
	const firstAnswers: Readonly<Record<string, ApiAnswer>> = {
		...{rate: throttled, down: {status: 503, body: 'down'}, lost: 'reset', gate: {status: 504, body: '<p>'}},
		...{bad, away: refused},
	};

	test(`${name}: sends over HTTPS, retries or bounces what is refused, and matches events by provider id`, async t => {
		const seen = new Set<string>();
		const {api, sns, program, daemon, client, mailIn} = await start(t, name, (n, to) => {
			const first = seen.has(to) ? undefined : firstAnswers[to.split('@')[0] ?? ''];
			seen.add(to);
			return first ?? taken(`0102019a-id-${n}`);
		});
		const other = await client.send('bob@b.example');
		await client.until(other, 'sent');
		const added = await program.cli<Added>('smarthost', 'add', name);
		// The running daemon learns of it soon.
		const first = await waitFor('mail has the field that the provider echoes', async () => {
			const id = await client.send('ann@a.example');
			await client.until(id, 'sent');
			return echoed[name].test(mailIn(api.requests.at(-1) as ApiRequest).mail) ? id : undefined;
		});
		const {to, mail} = mailIn(api.requests.at(-1) as ApiRequest);
		t.is(to, 'ann@a.example');
		t.is(/^DKIM-Signature: /m.test(mail), name !== 'postmark');
		t.regex(mail, /\r\n$/);
		const last = `0102019a-id-${api.requests.length}`;
		const shown = await client.show(first);
		t.like(shown.recipients[0]?.attempts[0], {
			code: 250,
			enhanced: '2.0.0',
			reply: `2.0.0 Ok: queued as ${last}`,
		});

		// It has no token, so only the id that was answered can find the mail.
		const events = [eventOf[name]('delivered', {ref: 'r0', to, id: last})];
		if (name !== 'mailgun') {
			for (const {body, headers} of postsOf(name, events, added.secret ?? '', sns && {sns})) {
				const path = new URL(added.url).pathname;
				t.is((await fetch(daemon.url + path, {method: 'POST', body, headers})).status, 200);
			}
			await client.until(first, 'delivered');
			t.is(await client.status(other), 'sent');
		}

		const later = await Promise.all(
			['rate', 'down', 'lost', 'gate'].map(local => client.send(`${local}@a.example`)),
		);
		await Promise.all(later.map(id => client.until(id, 'sent')));
		const firsts = await Promise.all(later.map(async id => (await client.show(id)).recipients[0]?.attempts[0]));
		t.like(firsts[0], {code: 421, enhanced: '4.7.0'});
		t.like(firsts[1], {code: 451, enhanced: '4.3.0'});
		for (const lost of firsts.slice(2)) {
			t.is(lost?.code, null);
			t.regex(lost?.reply ?? '', /^possible duplicate, no reply to the data: /);
		}
		await client.until(await client.send('bad@a.example'), 'bounced');
		t.like(await program.cli('suppression', 'check', 'bad@a.example'), {suppressed: false});

		// Where the key is refused nothing bounces, and the operator reads of it.
		const away = await client.send('away@a.example');
		await logged(program, 'log_in_refused');
		await waitFor('the operator has it tried again', async () => {
			await program.cli('queue', 'resume', 'a.example');
			return (await client.status(away)) === 'sent';
		});
		const everything = `${await program.log()}${JSON.stringify([
			...[
				shown,
				await client.show(away),
				await program.cli('queue', 'summary'),
				await program.cli('config', 'show'),
			],
		])}`;
		t.regex(everything, /\*\*\*\*/);
		t.false([secret, token, encodeURIComponent(secret)].some(word => everything.includes(word)));
		t.is(await daemon.stop(), 0);
	});
}

test('falls back to the next relay on a refused key; a workspace route stores its own key encrypted', async t => {
	const {mailgun} = providers;
	const own = mailgun.url.replace('mg.shop.example', 'own.shop.example');
	const [refused, sent]: [ApiRequest[], ApiRequest[]] = [[], []];
	const api = await startFakeApi(t, (request, n) => {
		t.true(mailgun.isProven(request));
		const isOwn = request.path.includes('/own.shop.example/');
		(isOwn ? sent : refused).push(request);
		return isOwn ? mailgun.taken(`0102019a-${n}`) : mailgun.refused;
	});
	const relay = await startFakeMx(t);
	const program = await prepareProgram(t, {
		MAILCTL_DELIVERY: 'relay',
		MAILCTL_RELAY_URL: `${mailgun.url},smtp://127.0.0.1:${relay.port}?tls=none`,
		MAILCTL_PROVIDER_HOSTS: `mailgun=${api.at}`,
		MAILCTL_HOSTNAME: 'mail.shop.example',
		MAILCTL_RETRY_SCHEDULE: '200ms*',
	});
	const daemon = await program.serve();
	const client = await clientOf(program, daemon);
	await client.until(await client.send('ann@a.example'), 'sent');
	t.is(relay.count(), 1);
	t.true(refused.length > 0);

	await program.cli('workspace', 'update', 'default', '--route', own);
	await waitFor('mail goes by it', async () => {
		await client.until(await client.send('ann@a.example'), 'sent');
		return sent.length > 0;
	});
	const shown = JSON.stringify([
		await program.cli('workspace', 'show', 'default'),
		await program.cli('workspace', 'list'),
		await program.cli('export'),
	]);
	t.regex(shown, /mailgun\+https:/);
	t.false(`${shown}${await program.log()}`.includes(token));
	const store = await Promise.all(
		['mailctl.db', 'mailctl.db-wal'].map(file => readFile(path.join(program.folder, 'data', file)).catch(() => '')),
	);
	t.false(store.some(bytes => bytes.includes(token)));
	t.is(await daemon.stop(), 0);
});
