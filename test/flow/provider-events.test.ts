import test, {type ExecutionContext} from 'ava';
import {type ProviderName, providerNames} from '../../src/mail/provider.ts';
import {prepareProgram} from '../helpers/daemon.ts';
import {type FakeMx, startFakeMx} from '../helpers/fake-mx.ts';
import {clientOf, headerOf} from '../helpers/mail-hosts.ts';
import {eventOf, type FakeSns, type Happened, postsOf, sendgridKeys, startFakeSns} from '../helpers/provider-posts.ts';
import {waitFor} from '../helpers/wait.ts';

type Added = {readonly id: string; readonly url: string; readonly secret: string | null};

/** A daemon whose mail goes by a smarthost that answers with an id for each mail. */
async function startRelaying(t: ExecutionContext, sns?: FakeSns) {
	let n = 0;
	const relay = await startFakeMx(t, {
		dot: () => {
			n += 1;
			return `250 2.0.0 Ok: queued as 4BF2-${n}`;
		},
	});
	const program = await prepareProgram(t, {
		MAILCTL_DELIVERY: 'relay',
		MAILCTL_RELAY_URL: `smtp://127.0.0.1:${relay.port}?tls=none`,
		MAILCTL_HOSTNAME: 'mail.shop.example',
		MAILCTL_RATE_LIMIT: '0',
		...(sns && {MAILCTL_PROVIDER_HOSTS: `sns=${sns.at}`}),
	});
	const daemon = await program.serve();
	return {relay, program, daemon, client: await clientOf(program, daemon)};
}

/** How the provider echoes our token, from the mail that it got. */
const echoed: Readonly<Record<ProviderName, RegExp>> = {
	ses: /^X-SES-MESSAGE-TAGS: mailctl-ref=(r\w{44})\r$/m,
	sendgrid: /^X-SMTPAPI: \{"unique_args":\{"mailctl-ref":"(r\w{44})"\}\}\r$/m,
	mailgun: /^X-Mailgun-Variables: \{"mailctl-ref":"(r\w{44})"\}\r$/m,
	postmark: /^X-PM-Metadata-mailctl-ref: (r\w{44})\r$/m,
	brevo: /^X-Mailin-custom: \{"mailctl-ref":"(r\w{44})"\}\r$/m,
	mailjet: /^X-MJ-CustomID: (r\w{44})\r$/m,
	sparkpost: /^X-MSYS-API: \{"metadata":\{"mailctl-ref":"(r\w{44})"\}\}\r$/m,
	generic: /^X-Mailctl-Ref: (r\w{44})\r$/m,
};

const mailTo = ({received}: FakeMx, to: string) => received.find(mail => mail.to.some(one => one.includes(to)))?.data;

for (const provider of providerNames) {
	test(`${provider}: deliveries, bounces, complaints and drops reach their mail; forged and repeated ones change nothing`, async t => {
		const sns = provider === 'ses' ? await startFakeSns(t) : undefined;
		const {relay, program, daemon, client} = await startRelaying(t, sns);
		const {key, shown} = sendgridKeys();
		const own = provider === 'sendgrid' ? ['--secret', shown] : [];
		const added = await program.cli<Added>('smarthost', 'add', provider, ...own);
		const url = added.url.replace(/^https?:\/\/[^/]+/, daemon.url);
		const post = async (body: string, headers: Readonly<Record<string, string>>) =>
			(await fetch(url, {method: 'POST', body, headers})).status;
		// The running daemon learns of the smarthost before mail goes.
		const probe = async () => {
			const to = `probe-${Math.random()}@example.org`;
			await client.until(await client.send(to), 'sent');
			return echoed[provider].test(mailTo(relay, to)?.toString('latin1') ?? '');
		};
		await waitFor('mail has the field that the provider echoes', probe);
		if (sns) {
			const asks = {
				Type: 'SubscriptionConfirmation',
				Token: 'abc',
				SubscribeURL: 'https://sns.eu-west-1.amazonaws.com/?Token=abc',
			};
			t.is(await post(sns.message(asks), {'content-type': 'text/plain'}), 200);
			t.true(sns.asked.includes('/?Token=abc'), 'the subscription is confirmed');
		}

		const sent = new Map<Happened, string>();
		const events: object[] = [];
		for (const what of ['delivered', 'hard', 'complained', 'dropped'] as const) {
			const to = `${what}@example.org`;
			const id = await client.send(to);
			await client.until(id, 'sent');
			sent.set(what, id);
			const mail = (await waitFor('it came', () => mailTo(relay, to))).toString('latin1');
			const [, ref = ''] = echoed[provider].exec(mail) ?? [];
			t.is(headerOf(Buffer.from(mail), 'X-Mailctl-Ref'), ref);
			events.push(eventOf[provider](what, {ref, to, id: `pid-${what}`}));
		}
		const posts = postsOf(provider, events, added.secret ?? '', {...(sns && {sns}), sendgridKey: key});
		const forged = sns
			? posts.map(one => ({...one, body: one.body.replace('example.org', 'example.net')}))
			: postsOf(provider, events, `${added.secret}x`, {sendgridKey: sendgridKeys().key});
		for (const {body, headers} of forged) {
			t.is(await post(body, headers), 401, 'forged');
		}
		for (const {body, headers} of [...posts, ...posts]) {
			t.is(await post(body, headers), 200);
		}
		const idOf = (what: Happened) => sent.get(what) ?? '';
		await client.until(idOf('delivered'), 'delivered');
		await client.until(idOf('hard'), 'bounced');
		await client.until(idOf('complained'), 'complained');
		await client.until(idOf('dropped'), 'bounced');
		for (const [what, type] of [
			['delivered', 'delivered'],
			['hard', 'bounced'],
			['complained', 'complained'],
			['dropped', 'bounced'],
		] as const) {
			const {events: timeline} = await client.show(idOf(what));
			t.is(timeline.filter(event => event.type === type).length, 1, what);
			const suppressed = await program.cli<{suppressed: boolean}>('suppression', 'check', `${what}@example.org`);
			t.is(suppressed.suppressed, what !== 'delivered', what);
		}
		const metrics = await (await fetch(`${daemon.url}/metrics`)).text();
		t.regex(
			metrics,
			new RegExp(
				`mailctl_provider_posts_total\\{[^}]*provider="${provider}"[^}]*end="forged"[^}]*\\} ${posts.length}\\n`,
			),
		);
		const listed = await program.cli<ReadonlyArray<{last_event_at: string | null}>>('smarthost', 'list');
		t.truthy(listed[0]?.last_event_at);
		t.is((await fetch(url.replace(/[^/]+$/, 'other'), {method: 'POST', body: '{}'})).status, 404);
		t.is(await daemon.stop(), 0);
	});
}

test('kill -9 while events come in: nothing acknowledged is lost, all of it counts once', async t => {
	const {relay, program, daemon, client} = await startRelaying(t);
	const added = await program.cli<Added>('smarthost', 'add', 'postmark');
	const ids = new Map<string, string>();
	const mails = 120;
	for (let n = 0; n < mails; n++) {
		const to = `p${n}@example.org`;
		ids.set(to, await client.send(to));
	}
	await waitFor('all went out', () => relay.count() === mails);
	await Promise.all([...ids.values()].map(id => client.until(id, 'sent')));
	const events = [...ids].map(([to], n) => {
		const ref = headerOf(mailTo(relay, to) ?? Buffer.of(), 'X-Mailctl-Ref');
		const what = n < 12 ? 'hard' : n < 15 ? 'complained' : 'delivered';
		return eventOf.postmark(what, {ref, to, id: `pid-${n}`});
	});
	const posts = events.flatMap(event => postsOf('postmark', [event], added.secret ?? ''));
	const postTo = async (url: string, from: readonly (typeof posts)[number][]) => {
		const path = new URL(added.url).pathname;
		return await Promise.all(
			from.map(
				async ({body, headers}) => (await fetch(url + path, {method: 'POST', body, headers}).catch(() => null))?.status,
			),
		);
	};
	// Killed while half of the posts are under way; the provider posts again what was not acknowledged.
	const [first] = posts;
	t.deepEqual(await postTo(daemon.url, first ? [first] : []), [200]);
	const underWay = postTo(daemon.url, posts.slice(1, 60));
	await daemon.kill();
	const answers = await underWay;
	const again = await program.serve();
	const missed = posts.slice(1, 60).filter((_, index) => answers[index] !== 200);
	t.true((await postTo(again.url, [...missed, ...posts.slice(60)])).every(status => status === 200));

	const restarted = await clientOf(program, again);
	const statusOf = new Map<string, number>();
	await Promise.all(
		[...ids.values()].map(async id => {
			await waitFor('its event was read', async () => (await restarted.status(id)) !== 'sent');
			const status = await restarted.status(id);
			statusOf.set(status, (statusOf.get(status) ?? 0) + 1);
		}),
	);
	t.deepEqual(Object.fromEntries(statusOf), {bounced: 12, complained: 3, delivered: 105});
	const listed = await program.cli<ReadonlyArray<{reason: string}>>('suppression', 'list', '--limit', '100');
	t.is(listed.filter(({reason}) => reason === 'hard_bounce').length, 12);
	t.is(listed.filter(({reason}) => reason === 'complaint').length, 3);
	t.is(await again.stop(), 0);
});
