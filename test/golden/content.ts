import {mkdirSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import {storeTime} from '../../src/kit/time.ts';
import {noteWishes} from '../../src/resources/certificates/store.ts';
import {countTls} from '../../src/resources/domains/tls-store.ts';
import type {Store} from '../../src/store/store.ts';
import {dmarcMail, type Reporter, reporters} from '../helpers/aggregate-mails.ts';
import type {Cli} from '../helpers/cli.ts';
import {publish, type ToPublish} from '../helpers/domain-zone.ts';
import type {Zone} from '../helpers/fake-dns.ts';
import {insertMessages, newId} from '../helpers/messages.ts';
import {changeRecipients} from '../helpers/recipient-rows.ts';
import {unmatchedBounce} from '../helpers/unmatched-bounce.ts';
import {insertDue} from '../helpers/webhooks.ts';

// The content of the store and the folder in which test/golden/json.test.ts runs its transcripts.

export const goldenZone: Zone = {'out.mail.example': {a: ['127.0.0.9']}};

const later = '2099-01-01T00:00:00.000Z';
const reply = '451 4.7.1 Try again later';
const day = 86_400_000;

const declared = `version: 1
workspaces:
  - name: default
    settings:
      locale: de
      timezone: Europe/Vienna
      monthly_quota: 50000
      queue_lifetime: 172800
      route: smtp://app:hunter2@relay.example
      default_topic: news
      retention_days: 60
      content_days: 30
      max_attachments: 2
      max_attachment_bytes: 500000
      track_opens: true
      track_clicks: true
      branding: {name: Shop, logo_url: 'https://shop.example/x.png', accent: '#336699', support_email: a@shop.example}
    domains:
      - {name: shop.example, link_host: links.shop.example}
    senders:
      - {address: declared@shop.example, name: Shop, verified: true}
    topics:
      - {code: news, name: Monthly news, public: true, required: false, description: Once a month, priority: low}
    webhooks:
      - {url: 'https://shop.example/declared', events: [delivered, bounced], format: full, retry: long}
    keys:
      - {name: declared, scopes: [messages:send], rate_limit: 100/60, expires_at: '2099-01-01T00:00:00.000Z'}
`;

function writeFiles({folder}: Cli): void {
	const begin = (Math.floor(Date.now() / day) - 1) * 86_400;
	const span = {begin, end: begin + 86_399};
	const aggregate = dmarcMail(reporters[0] as Reporter, {
		...{org: '', email: '', id: 'r1', domain: 'shop.example', ...span},
		records: [
			{ip: '127.0.0.9', n: 200, dkim: 'pass', spf: 'pass'},
			{ip: '2001:db8::bad', n: 3, dkim: 'fail', spf: 'fail', mailFrom: 'evil.example', passed: 'pass'},
		],
	});
	const event = {
		...{RecordType: 'Bounce', Type: 'HardBounce', Email: 'ada@example.org', BouncedAt: '2026-11-20T08:15:32Z'},
		...{MessageID: '883953f4-6105-42a2-a16a-77a8eac79483', Details: 'smtp;550 5.1.1 no such user'},
	};
	for (const name of ['templates', 'newer']) {
		mkdirSync(join(folder, name, 'receipt'), {recursive: true});
	}
	for (const [name, content] of Object.entries({
		'templates/receipt/template.json': '{"subject":"Your receipt {{ order }}","subjects":{"de":"Ihr Beleg"}}',
		'templates/receipt/body.html': '<p>Order {{ order }}</p>',
		'templates/receipt/body.de.html': '<p>Auftrag {{ order }}</p>',
		'templates/receipt/sample.json': '{"order":"1001"}',
		'newer/receipt/template.json': '{"subject":"Your receipt"}',
		'newer/receipt/body.html': '<p>Order {{ order }}, thank you!</p>',
		'list.csv': 'email,reason\ncsv@x.example,manual\n',
		'bad.csv': 'email,reason\nnot an address,manual\n',
		'unmatched.eml': unmatchedBounce('gone@dest.example'),
		'aggregate.eml': aggregate,
		'event.json': JSON.stringify(event),
		'key.txt': 'secret\n',
		'mailctl.yaml': declared,
		'wrong.yaml': 'version: 1\nworkspaces: [{name: default, nonsense: true}]\n',
	})) {
		writeFileSync(join(folder, name), content);
	}
}

/** Inserts messages that are deferred, due, held, bounced and delivered, each to a domain named after its state. */
async function fillMessages(store: Store, workspaceId: string): Promise<void> {
	const {id: templateId} = await store.reader('templates').first();
	const {id: versionId} = await store.reader('template_versions').first();
	const at = storeTime(Date.now());
	const states: ReadonlyArray<readonly [address: string, changes: object]> = [
		[
			'ann@slow.example',
			{state: 'queued', attempts: 1, next_attempt_at: later, last_category: 'policy', last_reply: reply},
		],
		['bob@fast.example', {attempts: 0}],
		['cy@held.example', {held_at: at}],
		['dee@lost.example', {state: 'bounced', attempts: 1, next_attempt_at: null, last_reply: '550 5.1.1 Unknown'}],
		['eve@good.example', {state: 'delivered', attempts: 1, next_attempt_at: null, last_reply: '250 2.0.0 Ok'}],
		...['flo', 'gus', 'hal'].map(name => [`${name}@many.example`, {attempts: 0}] as const),
	];
	for (const [address, changes] of states) {
		const [id = ''] = await insertMessages(store, workspaceId, [address]);
		const of = {template_id: templateId, version_id: versionId};
		const from = {from_address: 'hello@shop.example', from_key: 'hello@shop.example'};
		await store
			.database('messages')
			.where({id})
			.update({...of, ...from});
		await changeRecipients(store.database, all => all.where({message_id: id}), changes);
		const events = ['accepted', 'queued'].map(type => ({message_id: id, type, occurred_at: at, recorded_at: at}));
		await store.database('events').insert(events.map(event => ({id: newId('evt'), ...event})));
	}
	const {id: slow} = await store.reader('recipients').where({address: 'ann@slow.example'}).first();
	const {id: reached} = await store.reader('recipients').where({address: 'eve@good.example'}).first();
	const tls = 'TLSv1.3 TLS_AES_256_GCM_SHA384 unverified';
	const attempt = {n: 1, position: 0, at, ip: '192.0.2.7', tls, ms: 12};
	await store.database('attempts').insert([
		{
			...{...attempt, recipient_id: slow, host: 'mx.slow.example', phase: 'rcpt', code: 451, enhanced: '4.7.1'},
			...{reply, dialogue: '     0 S: 220 mx.slow.example\n     9 C: EHLO out.mail.example'},
		},
		{
			...{...attempt, recipient_id: reached, host: 'mx.good.example', phase: 'dot', code: 250},
			...{enhanced: '2.0.0', reply: '250 2.0.0 Ok', dialogue: null},
		},
	]);
	const seen = {recipient_id: reached, first_at: at, last_at: at, machine_n: 1};
	await store.database('engagement').insert([
		{...seen, kind: 'opened', url: '', n: 3},
		{...seen, kind: 'clicked', url: 'https://shop.example/orders', n: 1},
	]);
}

/** Inserts a contact with a locale and a time zone, and one with an opt-out. */
async function fillContacts(store: Store, workspaceId: string): Promise<void> {
	const at = storeTime(Date.now());
	for (const [address, locale, timezone] of [
		['jane@example.org', 'de-AT', 'Europe/Vienna'],
		['picky@example.org', null, null],
	]) {
		const person = {workspace_id: workspaceId, address, address_key: address, created_at: at};
		await store.database('contacts').insert({...person, id: newId('con'), locale, timezone, updated_at: at});
		if (locale === null) {
			await store.database('topic_optouts').insert({...person, code: 'news', source: 'api'});
		}
	}
}

/** Fills the store that `mailctl init` created. */
export async function fillGolden(cli: Cli, zone: Zone): Promise<void> {
	writeFiles(cli);
	await cli.json('sender', 'add', 'hello@shop.example', '--name', 'Shop', '--verified');
	const store = await cli.store();
	const {id: workspaceId} = await store.reader('workspaces').first();
	await fillMessages(store, workspaceId);
	await fillContacts(store, workspaceId);
	const at = storeTime(Date.now());
	const policy = {policy: 'no-policy-found', host: 'mx.good.example', result: 'success'} as const;
	await store.writer.transaction(async trx => {
		await noteWishes(trx, [{name: 'mail.example', unused: null}], at);
		await countTls(trx, [{day: at.slice(0, 10), domain: 'good.example', ...policy}]);
	});

	const {records} = await cli.json<{records: ToPublish[]}>('domain', 'show', 'shop.example');
	publish(
		zone,
		records.filter(({purpose, name}) => purpose !== 'dmarc' && !name.startsWith('mc2.')),
	);
	const endpoint = ['webhook', 'add', 'https://127.0.0.1:1024/hooks', '--event', 'delivered,opened'];
	const {id: endpointId} = await cli.json<{id: string}>(...endpoint);
	const [first] = await insertDue(store, workspaceId, endpointId, 2);
	const failed = {
		delivery_id: first,
		generation: 0,
		n: 1,
		at,
		ms: 5000,
		status: 503,
		error: 'the server responded with 503',
	};
	await store.database('webhook_attempts').insert(failed);
}
