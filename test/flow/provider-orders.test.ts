import {readFileSync} from 'node:fs';
import test from 'ava';
import {type ProviderName, providerNames} from '../../src/mail/provider.ts';
import {oncePerFile} from '../helpers/once-per-file.ts';
import {type Added, echoed, mailTo, startAll} from '../helpers/provider-lab.ts';
import {type Post, postsOf, proven} from '../helpers/provider-posts.ts';
import {call} from '../helpers/shop.ts';
import {waitFor} from '../helpers/wait.ts';

type Lab = Awaited<ReturnType<typeof startAll>>;
/** The subjects of the recorded payloads of each provider (test/fixtures/providers). */
type What = 'delivered' | 'bounced' | 'complained' | 'deferred' | 'dropped';

const recorded = (provider: ProviderName) =>
	JSON.parse(readFileSync(`test/fixtures/providers/${provider}.json`, 'utf8')) as ReadonlyArray<{
		readonly what: string;
		readonly event: object;
	}>;

/** A recorded payload about this message; undefined: this provider has no such event. */
function payload(provider: ProviderName, what: What, ref: string, to: string): object | undefined {
	const found = recorded(provider).find(one => one.what === what)?.event;
	const text = JSON.stringify(found)?.replaceAll('rTOKEN', ref).replaceAll('ada@example.org', to);
	return text === undefined ? undefined : JSON.parse(text);
}

/** Fixtures that both tests share. */
const sharedLab = oncePerFile(test, startAll);

/** The reports that found no message. */
const keptIn = async ({program}: Lab) =>
	await program.cli<ReadonlyArray<{kept: string}>>('bounce', 'unmatched', '--limit', '100');

/** Events in order of arrival, the resulting status, and the resulting timeline entries. */
const orders: ReadonlyArray<readonly [come: readonly What[], status: string, suppressed: boolean]> = [
	[['bounced', 'delivered'], 'bounced', true],
	[['complained', 'delivered'], 'complained', true],
	[['delivered', 'deferred'], 'delivered', false],
	[['dropped', 'delivered'], 'bounced', true],
	[['delivered', 'bounced'], 'bounced', true],
	[['complained', 'bounced', 'delivered'], 'complained', true],
	[['bounced', 'bounced', 'bounced'], 'bounced', true],
	[['delivered', 'complained', 'delivered', 'complained'], 'complained', true],
];
/** The first orders contain every kind of event. The outcome of an order does not depend on the provider. */
const ordersOf = (provider: ProviderName) => (provider === 'generic' ? orders : orders.slice(0, 4));

const statuses = ['delivered', 'bounced', 'complained'];

async function sent({client, relay}: Lab, provider: ProviderName, to: string) {
	const id = await client.send(to);
	await client.until(id, 'sent');
	const mail = (await waitFor('it came', () => mailTo(relay, to))).toString('latin1');
	const [, ref = ''] = echoed[provider].exec(mail) ?? [];
	return {id, ref};
}

/** Waits until everything posted has been processed. */
async function allRead({daemon}: Lab): Promise<void> {
	await waitFor('all events are read', async () =>
		/^mailctl_inbound_unread\S* 0$/m.test(await (await fetch(`${daemon.url}/metrics`)).text()),
	);
}

/** The status of a message and the provider events in its timeline. */
async function endOf({client, daemon}: Lab, id: string) {
	const {body} = await call(`${daemon.url}/v1/messages/${id}/events`, client.shop.key);
	const types = (body as {data: ReadonlyArray<{type: string}>}).data.map(({type}) => type);
	return {status: await client.status(id), timeline: types.filter(type => statuses.includes(type))};
}

const suppressedOf = async ({program}: Lab, ...where: readonly string[]) => {
	const all = await program.cli<ReadonlyArray<{recipient: string}>>(
		'suppression',
		'list',
		'--limit',
		'1000',
		...where,
	);
	return all.map(({recipient}) => recipient).toSorted();
};

test.serial(
	'stores events about unknown messages without effect and rejects truncated ones, for each provider',
	async t => {
		const lab = sharedLab();
		await lab.program.cli('workspace', 'create', '--name', 'other');
		const mails: Array<readonly [ProviderName, string]> = [];
		const refused = new Map<ProviderName, number[]>();
		let foreign = 0;
		for (const provider of providerNames) {
			const to = `${provider}@example.org`;
			const {id, ref} = await sent(lab, provider, to);
			mails.push([provider, id]);
			const own = provider === 'sendgrid' ? ['--secret', lab.sendgridShown] : [];
			const other = await lab.program.cli<Added>('smarthost', 'add', provider, ...own, '--workspace', 'other');
			const bounce = (token: string) => payload(provider, 'bounced', token, to) ?? {};
			const others: ReadonlyArray<readonly [what: string, post: readonly Post[], url: string]> = [
				// The account sends mail of others too, also to this recipient.
				['no token', postsOf(provider, [bounce('')], lab.secretOf(provider), lab.keys), lab.urlOf(provider)],
				[
					'a token',
					postsOf(provider, [bounce(`r${'0'.repeat(44)}`)], lab.secretOf(provider), lab.keys),
					lab.urlOf(provider),
				],
				// The token is right, and the URL is that of another workspace.
				[
					'a URL',
					postsOf(provider, [bounce(ref)], other.secret ?? '', lab.keys),
					lab.daemon.url + new URL(other.url).pathname,
				],
			];
			for (const [what, posts, url] of others) {
				for (const {body, headers} of posts) {
					await waitFor(`${provider} may post to it`, async () => {
						const {status} = await fetch(url, {method: 'POST', body, headers});
						t.true(status === 200 || status === 404, `${provider}: foreign ${what}: ${status}`);
						return status === 200;
					});
					foreign++;
				}
			}

			const [whole] = postsOf(provider, [bounce(ref)], lab.secretOf(provider), lab.keys);
			const {body = '', headers = {}} = whole ?? {};
			const ends = [1, body.length >> 2, body.length >> 1, body.length - 1];
			const cut = await Promise.all(ends.map(end => lab.post(provider, body.slice(0, end), headers)));
			// The proof holds, and what it proves is no JSON.
			const signs = provider === 'sendgrid' || provider === 'generic';
			const forged = signs ? proven(provider, body.slice(0, -1), lab.secretOf(provider), lab.keys) : null;
			refused.set(provider, [...cut, ...(forged ? [await lab.post(provider, forged.body, forged.headers)] : [])]);
		}
		t.deepEqual(Object.fromEntries(refused), {
			// A proof that covers the body, or is within it, is gone with a part of the body.
			...{ses: [401, 401, 401, 401], mailgun: [401, 401, 401, 401]},
			...{sendgrid: [401, 401, 401, 401, 400], generic: [401, 401, 401, 401, 400]},
			...{postmark: [400, 400, 400, 400], brevo: [400, 400, 400, 400]},
			...{mailjet: [400, 400, 400, 400], sparkpost: [400, 400, 400, 400]},
		});
		// Proven too, and nothing that a provider posts.
		const deep = `[{"RecordType":${'['.repeat(50_000)}${']'.repeat(50_000)}}]`;
		for (const body of [deep, JSON.stringify(Array.from({length: 10_001}, () => ({})))]) {
			const post = proven('postmark', body, lab.secretOf('postmark'), lab.keys);
			t.is(await lab.post('postmark', post.body, post.headers), 400);
		}
		await allRead(lab);
		for (const [provider, id] of mails) {
			t.deepEqual(await endOf(lab, id), {status: 'sent', timeline: []}, provider);
		}
		t.deepEqual(await suppressedOf(lab, '--workspace', 'default'), []);
		t.deepEqual(await suppressedOf(lab, '--workspace', 'other'), []);
		const kept = await keptIn(lab);
		t.is(kept.length, foreign);
		t.true(kept.every(one => one.kept === 'unmatched'));
		const metrics = await (await fetch(`${lab.daemon.url}/metrics`)).text();
		t.regex(metrics, new RegExp(`mailctl_inbound_mails_total\\{[^}]*"provider"[^}]*\\} ${foreign}\\n`));
	},
);

test.serial('events in reverse order, at once or repeated lead to the same state, for each provider', async t => {
	const lab = sharedLab();
	const unmatched = (await keptIn(lab)).length;
	const posted: Array<{id: string; to: string; status: string; isSuppressed: boolean}> = [];
	for (const provider of providerNames) {
		await Promise.all(
			ordersOf(provider).map(async ([come, status, isSuppressed], n) => {
				const to = `${provider}-${n}@example.org`;
				const {id, ref} = await sent(lab, provider, to);
				const events = come.flatMap(what => payload(provider, what, ref, to) ?? []);
				posted.push({id, to, status, isSuppressed});
				for (const event of events) {
					for (const {body, headers} of postsOf(provider, [event], lab.secretOf(provider), lab.keys)) {
						t.is(await lab.post(provider, body, headers), 200);
					}
					// The second half comes only when the first is read.
					if (n % 2 === 0) {
						await allRead(lab);
					}
				}
				// And all of them once more, at once and backwards.
				const again = postsOf(provider, events.toReversed(), lab.secretOf(provider), lab.keys);
				const answers = await Promise.all(again.map(({body, headers}) => lab.post(provider, body, headers)));
				t.true(answers.every(answer => answer === 200));
			}),
		);
	}
	await allRead(lab);
	for (const {id, to, status} of posted) {
		const {timeline, ...end} = await endOf(lab, id);
		t.is(end.status, status, to);
		t.true(timeline.includes(status), to);
		t.is(new Set(timeline).size, timeline.length, `${to}: ${timeline}`);
	}
	t.deepEqual(
		await suppressedOf(lab, '--workspace', 'default'),
		posted.flatMap(({isSuppressed, to}) => (isSuppressed ? [to] : [])).toSorted(),
	);
	t.is((await keptIn(lab)).length, unmatched);
});
