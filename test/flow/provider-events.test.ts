import test from 'ava';
import {providerNames} from '../../src/mail/provider.ts';
import {clientOf, headerOf} from '../helpers/mail-hosts.ts';
import {oncePerFile} from '../helpers/once-per-file.ts';
import {echoed, mailTo, startAll} from '../helpers/provider-lab.ts';
import {eventOf, type Happened, postsOf, sendgridKeys} from '../helpers/provider-posts.ts';
import {waitFor} from '../helpers/wait.ts';

const lab = oncePerFile(test, startAll);

const ends = [
	['delivered', 'delivered'],
	['hard', 'bounced'],
	['complained', 'complained'],
	['dropped', 'bounced'],
] as const;
const statuses: readonly string[] = ends.map(([, status]) => status);

test.serial('matches events of each provider to their message, and ignores forged and repeated ones', async t => {
	const {relay, program, daemon, client, sns, key, urlOf, secretOf, post} = lab();
	const subscribeUrl = 'https://sns.eu-west-1.amazonaws.com/?Token=abc';
	const asks = {Type: 'SubscriptionConfirmation', Token: 'abc', SubscribeURL: subscribeUrl};
	t.is(await post('ses', sns.message(asks), {'content-type': 'text/plain'}), 200);
	t.true(sns.asked.includes('/?Token=abc'), 'the subscription is confirmed');

	await Promise.all(
		providerNames.map(async provider => {
			const sent = new Map<Happened, string>();
			const events: object[] = [];
			for (const [what] of ends) {
				const to = `${provider}-${what}@example.org`;
				const id = await client.send(to);
				await client.until(id, 'sent');
				sent.set(what, id);
				const mail = (await waitFor('it came', () => mailTo(relay, to))).toString('latin1');
				const [, ref = ''] = echoed[provider].exec(mail) ?? [];
				t.is(headerOf(Buffer.from(mail), 'X-Mailctl-Ref'), ref);
				events.push(eventOf[provider](what, {ref, to, id: `${provider}-${what}`}));
			}
			const keys = {sns, sendgridKey: key};
			const posts = postsOf(provider, events, secretOf(provider), keys);
			const forged =
				provider === 'ses'
					? posts.map(one => ({...one, body: one.body.replace('example.org', 'example.net')}))
					: postsOf(provider, events, `${secretOf(provider)}x`, {sns, sendgridKey: sendgridKeys().key});
			for (const {body, headers} of forged) {
				t.is(await post(provider, body, headers), 401, `${provider}: forged`);
			}
			for (const {body, headers} of [...posts, ...posts]) {
				t.is(await post(provider, body, headers), 200, provider);
			}
			for (const [what, status] of ends) {
				const id = sent.get(what) ?? '';
				await client.until(id, status);
				const {events: timeline} = await client.show(id);
				t.is(timeline.filter(event => event.type === status).length, 1, `${provider}: ${what}`);
				const to = `${provider}-${what}@example.org`;
				const {suppressed} = await program.cli<{suppressed: boolean}>('suppression', 'check', to);
				t.is(suppressed, what !== 'delivered', `${provider}: ${what}`);
			}
			const metrics = await (await fetch(`${daemon.url}/metrics`)).text();
			t.regex(
				metrics,
				new RegExp(`mailctl_provider_posts_total\\{[^}]*"${provider}",[^}]*"forged"\\} ${posts.length}\\n`),
			);
		}),
	);
	type Times = {readonly last_event_at: string | null; readonly last_message_at: string | null};
	const listed = await program.cli<readonly Times[]>('smarthost', 'list');
	t.is(listed.filter(one => one.last_event_at !== null && one.last_message_at !== null).length, providerNames.length);
	t.is((await fetch(urlOf('ses').replace(/[^/]+$/, 'other'), {method: 'POST', body: '{}'})).status, 404);
});

test.serial('kill -9 while events arrive loses no acknowledged event and counts each once', async t => {
	const {relay, program, daemon, client, urlOf, secretOf} = lab();
	const before = relay.count();
	const ids = new Map<string, string>();
	const mails = 60;
	for (let n = 0; n < mails; n++) {
		const to = `p${n}@example.org`;
		ids.set(to, await client.send(to));
	}
	await waitFor('all went out', () => relay.count() === before + mails);
	await Promise.all([...ids.values()].map(id => client.until(id, 'sent')));
	const events = [...ids].map(([to], n) => {
		const ref = headerOf(mailTo(relay, to) ?? Buffer.of(), 'X-Mailctl-Ref');
		const what = n < 12 ? 'hard' : n < 15 ? 'complained' : 'delivered';
		return eventOf.postmark(what, {ref, to, id: `pid-${n}`});
	});
	const posts = events.flatMap(event => postsOf('postmark', [event], secretOf('postmark')));
	const postTo = async (url: string, from: readonly (typeof posts)[number][]) => {
		const path = new URL(urlOf('postmark')).pathname;
		return await Promise.all(
			from.map(
				async ({body, headers}) =>
					(await fetch(url + path, {method: 'POST', body, headers}).catch(() => null))?.status,
			),
		);
	};
	// Killed while half of the posts are under way; the provider posts again what was not acknowledged.
	const [first] = posts;
	t.deepEqual(await postTo(daemon.url, first ? [first] : []), [200]);
	const underWay = postTo(daemon.url, posts.slice(1, 30));
	await daemon.kill();
	const answers = await underWay;
	const again = await program.serve();
	const missed = posts.slice(1, 30).filter((_, index) => answers[index] !== 200);
	t.true((await postTo(again.url, [...missed, ...posts.slice(30)])).every(status => status === 200));

	const restarted = await clientOf(program, again);
	const statusOf = new Map<string, number>();
	await Promise.all(
		[...ids.values()].map(async id => {
			const status = await waitFor('its event was read', async () => {
				const now = await restarted.status(id);
				return statuses.includes(now) && now;
			});
			statusOf.set(status, (statusOf.get(status) ?? 0) + 1);
		}),
	);
	t.deepEqual(Object.fromEntries(statusOf), {bounced: 12, complained: 3, delivered: 45});
	type Entry = {readonly reason: string; readonly recipient: string};
	const all = await program.cli<readonly Entry[]>('suppression', 'list', '--limit', '200');
	const listed = all.filter(({recipient}) => ids.has(recipient));
	t.is(listed.filter(({reason}) => reason === 'hard_bounce').length, 12);
	t.is(listed.filter(({reason}) => reason === 'complaint').length, 3);
	t.is(await again.stop(), 0);
});
