import test from 'ava';
import {type ProviderName, providerNames} from '../../src/mail/provider.ts';
import {temporaryFolder} from '../helpers/databases.ts';
import {type Added, echoed, startAll, startRelaying} from '../helpers/provider-lab.ts';
import {eventOf, type Happened, postsOf} from '../helpers/provider-posts.ts';
import {call, eachOf} from '../helpers/shop.ts';
import {waitFor} from '../helpers/wait.ts';
import {startReceiver} from '../helpers/webhook-receiver.ts';

/** The number of messages of an emulated provider, and events of the first of them; others are delivered. */
const shares: Readonly<
	Record<ProviderName, {readonly mails: number; readonly hard: number; readonly complained: number}>
> = {
	ses: {mails: 1000, hard: 50, complained: 5},
	...{sendgrid: small(), mailgun: small(), postmark: small(), brevo: small(), mailjet: small()},
	...{sparkpost: small(), generic: small()},
};

function small() {
	return {mails: 100, hard: 5, complained: 2};
}

/** The events of a message, in order, and its outcome. */
function fate(
	{hard, complained}: {readonly hard: number; readonly complained: number},
	n: number,
): readonly Happened[] {
	return n < hard ? ['hard'] : n < hard + complained ? ['delivered', 'complained'] : ['delivered'];
}

const typeOf = {hard: 'bounced', delivered: 'delivered', complained: 'complained', dropped: 'bounced'} as const;
const hook = '/hook';

test('1,000 messages through SES and 100 through each other provider give exact figures despite a kill', async t => {
	const receiver = await startReceiver(t, await temporaryFolder(t), ['hooks.shop.example']);
	const lab = await startAll(t, receiver.settings);
	const {program, relay, client, keys, secretOf} = lab;
	const {key} = client.shop;
	const probes = relay.count();
	await program.cli('webhook', 'add', receiver.url(hook), '--event', 'delivered,bounced,complained');

	const mails = providerNames.flatMap(provider =>
		Array.from({length: shares[provider].mails}, (_, n) => ({
			...{provider, to: `${provider}-${n}@example.org`, fate: fate(shares[provider], n)},
		})),
	);
	const ids = new Map<string, string>();
	await eachOf(mails, 20, async ({to}) => void ids.set(to, await client.send(to)));
	await waitFor('all went out', () => relay.count() - probes === mails.length);
	await eachOf(ids.values(), 20, async id => await client.until(id, 'sent'));

	// The provider knows of a mail what came with it.
	const refs = new Map(
		relay.received.flatMap(({to, data}) => {
			const text = data.toString('latin1');
			const provider = providerNames.find(name => to[0]?.includes(`${name}-`)) ?? 'generic';
			return to.map(one => [one.replace(/^<|>$/g, ''), echoed[provider].exec(text)?.[1] ?? ''] as const);
		}),
	);
	const postsFor = (isWanted: (what: Happened) => boolean) =>
		providerNames.flatMap(provider => {
			const events = mails
				.filter(mail => mail.provider === provider)
				.flatMap(({to, fate: all}) =>
					all
						.filter(isWanted)
						.map(what => eventOf[provider](what, {ref: refs.get(to) ?? '', to, id: `id-${to}`})),
				);
			const starts = events.flatMap((_, n) => (n % 7 === 0 ? [n] : []));
			return starts
				.flatMap(at => postsOf(provider, events.slice(at, at + 7), secretOf(provider), keys))
				.map(post => ({provider, post}));
		});

	let {daemon} = lab;
	/** Retries unacknowledged posts, as providers do; the daemon is killed after half are acknowledged. */
	async function postThrough(posts: ReturnType<typeof postsFor>): Promise<void> {
		let acknowledged = 0;
		const posting = eachOf(posts, 20, async ({provider, post}) => {
			const {pathname} = new URL(lab.urlOf(provider));
			await waitFor('it is acknowledged', async () => {
				const answer = await fetch(daemon.url + pathname, {method: 'POST', ...post}).catch(() => null);
				return answer?.status === 200;
			});
			acknowledged++;
		});
		await waitFor('half of it is acknowledged', () => acknowledged >= posts.length / 2);
		await daemon.kill();
		daemon = await program.serve();
		await posting;
		await waitFor('all events are read', async () =>
			/^mailctl_inbound_unread\S* 0$/m.test(await (await fetch(`${daemon.url}/metrics`)).text()),
		);
	}

	await postThrough(postsFor(what => what !== 'complained'));
	// People complain of what they got.
	await postThrough(postsFor(what => what === 'complained'));

	const timelines = new Map<string, readonly string[]>();
	await eachOf(mails, 10, async ({to}) => {
		const {body} = await call(`${daemon.url}/v1/messages/${ids.get(to)}/events`, key);
		timelines.set(
			to,
			(body as {data: ReadonlyArray<{type: string}>}).data.map(({type}) => type),
		);
	});
	const expected = mails.map(({to, fate: all}) => [
		to,
		['accepted', 'queued', 'sent', ...all.map(what => typeOf[what])].join(),
	]);
	t.deepEqual(
		mails.map(({to}) => [to, timelines.get(to)?.join()]),
		expected,
	);

	const suppressed = await program.cli<ReadonlyArray<{recipient: string; reason: string}>>(
		...['suppression', 'list', '--limit', '10000'],
	);
	const reasons = {bounced: 'hard_bounce', complained: 'complaint'} as const;
	t.deepEqual(
		suppressed.map(({recipient, reason}) => `${recipient} ${reason}`).toSorted(),
		mails
			.flatMap(({to, fate: all}) => {
				const end = typeOf[all.at(-1) ?? 'delivered'];
				return end === 'delivered' ? [] : [`${to} ${reasons[end]}`];
			})
			.toSorted(),
	);

	// Each event is posted under one id; what was under way when the daemon was killed may come twice.
	const wanted = mails
		.flatMap(({to, fate: all}) => all.map(what => `${ids.get(to)} ${to} ${typeOf[what]}`))
		.toSorted();
	const hooks = () =>
		new Map(receiver.postsTo(hook).map(({headers, body}) => [headers['x-webhook-id'], body.toString()]));
	await waitFor('all webhooks came', () => hooks().size >= wanted.length);
	t.deepEqual(
		[...hooks().values()]
			.map(body => {
				const {type, message_id: id, recipient} = JSON.parse(body);
				return `${id} ${recipient} ${type}`;
			})
			.toSorted(),
		wanted,
	);

	const sum = (count: (share: (typeof shares)[ProviderName]) => number) =>
		providerNames.reduce((all, name) => all + count(shares[name]), 0);
	const {rows} = await program.cli<{rows: ReadonlyArray<Record<string, unknown>>}>('stats', '--days', '2');
	t.like(rows[0], {
		accepted: mails.length + probes,
		delivered: sum(({mails: all, hard}) => all - hard),
		bounced: sum(({hard}) => hard),
		complained: sum(({complained}) => complained),
	});
	t.deepEqual(await program.cli('bounce', 'unmatched'), []);
	t.is(await daemon.stop(), 0);
});

test('each message has exactly one outcome if killed while messages go out and their events come in', async t => {
	const lab = await startRelaying(t);
	const {relay, program, client} = lab;
	const {from, templateId, key} = client.shop;
	let {daemon} = lab;
	const added = await program.cli<Added>('smarthost', 'add', 'postmark');
	await waitFor('mail has the field that Postmark echoes', async () => {
		await client.until(await client.send(`probe-${Math.random()}@example.org`), 'sent');
		return echoed.postmark.test(relay.received.at(-1)?.data.toString('latin1') ?? '');
	});

	// The provider posts as soon as it has a mail, and again until it is acknowledged. A copy that comes twice has two
	// ids.
	let next = relay.received.length;
	const before = next;
	let isOver = false;
	// Few enough that the workspace's reputation does not pause it.
	const endOf = (to: string) => (/[37]0@/.test(to) ? 'bounced' : 'delivered');
	const posting = Array.from({length: 10}, async () => {
		while (await waitFor('there is more, or it is over', () => isOver || next < relay.received.length)) {
			const n = next;
			const mail = relay.received[n];
			if (mail === undefined) {
				return;
			}
			next++;
			const [to = ''] = mail.to.map(one => one.replace(/^<|>$/g, ''));
			const [, ref = ''] = echoed.postmark.exec(mail.data.toString('latin1')) ?? [];
			const what = endOf(to) === 'bounced' ? 'hard' : 'delivered';
			const [post] = postsOf('postmark', [eventOf.postmark(what, {ref, to, id: `id-${n}`})], added.secret ?? '');
			await waitFor('it is acknowledged', async () => {
				const url = daemon.url + new URL(added.url).pathname;
				return (await fetch(url, {method: 'POST', ...post}).catch(() => null))?.status === 200;
			});
		}
	});

	const ids = new Map<string, string>();
	const addresses = Array.from({length: 300}, (_, n) => `q${n}@example.org`);
	const sending = eachOf(addresses, 20, async to => {
		const headers = {authorization: `Bearer ${key}`, 'content-type': 'application/json', 'idempotency-key': to};
		const order = {method: 'POST', headers, body: JSON.stringify({from, to, templateId})};
		await waitFor('it is taken', async () => {
			const answer = await fetch(`${daemon.url}/v1/messages`, order).catch(() => null);
			const body = await answer?.json().catch(() => null);
			ids.set(to, (body as {id?: string} | null)?.id ?? '');
			return answer?.status === 202 && ids.get(to) !== '';
		});
	});
	for (const gone of [100, 200]) {
		await waitFor(`${gone} mails are out`, () => relay.received.length - before >= gone);
		await daemon.kill();
		daemon = await program.serve();
	}
	await sending;
	const timelineOf = async (to: string) => {
		const {body} = await call(`${daemon.url}/v1/messages/${ids.get(to)}/events`, key);
		return (body as {data: ReadonlyArray<{type: string}>}).data.map(({type}) => type);
	};
	await eachOf(addresses, 10, async to => {
		await waitFor(`${to} has its end`, async () => (await timelineOf(to)).includes(endOf(to)));
	});
	isOver = true;
	await Promise.all(posting);
	await eachOf(addresses, 10, async to => {
		// Where the daemon was killed before it stored the answer to the dot, the end may come before `sent`, or
		// without it.
		const types = await timelineOf(to);
		t.deepEqual(types.filter(type => type !== 'sent').toSorted(), ['accepted', endOf(to), 'queued'].toSorted(), to);
		t.true(types.filter(type => type === 'sent').length <= 1, to);
	});
	t.is(await daemon.stop(), 0);
});
