import {mkdirSync, readFileSync, writeFileSync} from 'node:fs';
import {hostname, userInfo} from 'node:os';
import path from 'node:path';
import test, {type ExecutionContext} from 'ava';
import type {Command} from 'commander';
import {mailctl} from '../../../src/cli/commands.ts';
import {storeTime} from '../../../src/kit/time.ts';
import {noteWishes} from '../../../src/resources/certificates/store.ts';
import type {Store} from '../../../src/store/store.ts';
import {type Cli, newCli} from '../../helpers/cli.ts';
import {publish, type ToPublish} from '../../helpers/domain-zone.ts';
import {startFakeDns, type Zone} from '../../helpers/fake-dns.ts';
import {insertMessages, newId} from '../../helpers/messages.ts';
import {changeRecipients} from '../../helpers/recipient-rows.ts';

type Entry = {
	readonly id: string;
	readonly at: string;
	readonly workspace: string | null;
	readonly actor: string;
	readonly from: string;
	readonly action: string;
	readonly target: string | null;
	readonly detail: Readonly<Record<string, unknown>>;
};

type Lab = {
	readonly cli: Cli;
	readonly zone: Zone;
	readonly store: Store;
	readonly workspaceId: string;
	/** Inserts queued messages and returns their recipients. */
	readonly recipients: () => Promise<string[]>;
	/** The id of the object that this command created. */
	readonly made: (...args: readonly string[]) => Promise<string>;
};

/** The action recorded for a verb, and the arguments of a call. */
type Act = readonly [action: string, call: (lab: Lab) => Promise<readonly string[]> | readonly string[]];

const url = 'https://hooks.example/in?secret=s3cret';
const day = 86_400_000;

async function keyOf({made}: Lab): Promise<string> {
	return await made('key', 'create', '--name', 'other');
}

async function endpointOf({made}: Lab): Promise<string> {
	return await made('webhook', 'add', url, '--event', 'delivered');
}

async function messageOf({store, workspaceId}: Lab): Promise<string> {
	const [id = ''] = await insertMessages(store, workspaceId, ['later@x.example']);
	const {id: version_id} = await store.reader('template_versions').first('id');
	await store.database('messages').where({id}).update({version_id});
	return id;
}

async function contactOf({store, workspaceId}: Lab): Promise<string> {
	const id = newId('con');
	const [address, at] = [`jane-${id}@home.example`, storeTime(Date.now())];
	const person = {workspace_id: workspaceId, address, address_key: address};
	await store.database('contacts').insert({id, ...person, created_at: at, updated_at: at});
	return id;
}

function file({cli}: Lab, name: string, text: string): string {
	const full = path.join(cli.folder, name);
	mkdirSync(path.dirname(full), {recursive: true});
	writeFileSync(full, text);
	return full;
}

function templateFolder(lab: Lab, body: string): string {
	file(lab, 'templates/receipt/template.json', '{"subject":"Hi"}');
	file(lab, 'templates/receipt/body.html', `<p>${body}</p>`);
	return path.join(lab.cli.folder, 'templates');
}

/** Every verb that changes something, called in this order. */
const acts: Readonly<Record<string, Act>> = {
	// First: what other acts work on is not sealed.
	'secrets rotate': ['secrets.rotated', () => []],
	'workspace create': ['workspace.created', () => ['--name', 'second']],
	'workspace update': ['workspace.updated', () => ['acme', '--route', 'smtps://app:hunter2@relay.example']],
	'workspace pause': ['workspace.paused', () => ['acme', '--reason', 'review']],
	'workspace resume': ['workspace.resumed', () => ['acme']],
	'user add': ['user.added', () => ['ann@x.example', '--role', 'operator']],
	'user link': ['user.linked', () => ['ann@x.example']],
	'user remove': ['user.removed', () => ['ann@x.example', '--yes']],
	'key create': ['key.created', () => ['--name', 'app']],
	'key rotate': ['key.rotated', async lab => [await keyOf(lab)]],
	'key revoke': ['key.revoked', async lab => [await keyOf(lab)]],
	'domain add': ['domain.added', () => ['shop.example']],
	'domain update': ['domain.updated', () => ['shop.example', '--links', 'links.shop.example']],
	'domain verify': [
		'domain.verified',
		async ({cli, zone}) => {
			const {records} = await cli.json<{records: ToPublish[]}>(
				'domain',
				'show',
				'shop.example',
				'--workspace',
				'acme',
			);
			publish(zone, records);
			return ['shop.example'];
		},
	],
	'domain rotate-key': ['domain.key_rotated', () => ['shop.example']],
	'domain remove': ['domain.removed', () => ['shop.example', '--yes']],
	'sender add': ['sender.added', () => ['a@shop.example']],
	'sender verify': ['sender.verified', () => ['a@shop.example']],
	'sender disable': ['sender.disabled', () => ['a@shop.example']],
	'sender enable': ['sender.enabled', () => ['a@shop.example']],
	'sender remove': ['sender.removed', () => ['a@shop.example', '--yes']],
	'sample remove': [
		'domain.removed',
		async lab => {
			await lab.made('sender', 'add', 'hello@example.com');
			return ['--yes', '--workspace', 'acme'];
		},
	],
	'certificate renew': [
		'certificate.renewal_requested',
		async ({store}) => {
			await store.writer.transaction(trx =>
				noteWishes(trx, [{name: 'mail.test', unused: null}], storeTime(Date.now())),
			);
			return ['mail.test'];
		},
	],
	'alert add': ['alert.added', () => ['--mail', 'ops@shop.example']],
	'alert mute': [
		'alert.muted',
		async ({made}) => [await made('alert', 'add', '--mail', 'ops@shop.example'), '--for', '2h'],
	],
	'alert verify': [
		'alert.verified',
		async ({made}) => [await made('alert', 'add', '--mail', 'ops@shop.example', '--workspace', 'default')],
	],
	'alert remove': [
		'alert.removed',
		async ({made}) => [await made('alert', 'add', '--mail', 'ops@shop.example'), '--yes'],
	],
	'smarthost add': ['smarthost.added', () => ['postmark']],
	'smarthost rotate': ['smarthost.rotated', async ({made}) => [await made('smarthost', 'add', 'brevo')]],
	'smarthost remove': ['smarthost.removed', async ({made}) => [await made('smarthost', 'add', 'brevo'), '--yes']],
	'inbound add': ['inbound.added', () => ['support@in.shop.example']],
	'inbound remove': [
		'inbound.removed',
		async ({made}) => [await made('inbound', 'add', '*@in.shop.example'), '--yes'],
	],
	'template create': ['template.created', () => ['--name', 'empty']],
	'template update': [
		'template.updated',
		async ({made}) => [await made('template', 'create', '--name', 'plain'), '--priority', 'high'],
	],
	'template push': [
		'template.version_created',
		async lab => {
			await lab.cli.json('template', 'push', templateFolder(lab, 'one'), '--workspace', 'acme');
			return [templateFolder(lab, 'two')];
		},
	],
	'template rollback': ['template.rolled_back', () => ['receipt', '1']],
	'template delete': ['template.deleted', () => ['receipt', '--yes']],
	'suppression add': ['suppression.added', () => ['b@x.example']],
	'suppression remove': ['suppression.removed', () => ['b@x.example', '--yes']],
	'suppression import': [
		'suppression.imported',
		lab => [file(lab, 'list.csv', Array.from({length: 1200}, (_, n) => `u${n}@y.example\n`).join(''))],
	],
	'topic create': ['topic.created', () => ['--code', 'news', '--name', 'News']],
	'topic update': ['topic.updated', () => ['news', '--public']],
	'topic remove': ['topic.removed', () => ['news', '--yes']],
	'topic purge': [
		'topic.purged',
		async ({store, workspaceId}) => {
			const who = {workspace_id: workspaceId, code: 'news', address: 'a@x.example', address_key: 'a@x.example'};
			await store.database('topic_optouts').insert({...who, source: 'page', created_at: storeTime(Date.now())});
			return ['news', '--yes'];
		},
	],
	'contact update': ['contact.updated', async lab => [await contactOf(lab), '--locale', 'de']],
	'contact preferences-link': ['contact.linked', async lab => [await contactOf(lab)]],
	'contact erase': ['contact.erased', async lab => [await contactOf(lab), '--yes']],
	'webhook add': ['webhook.created', () => [url, '--event', 'delivered']],
	'webhook rotate': ['webhook.rotated', async lab => [await endpointOf(lab)]],
	'webhook disable': ['webhook.disabled', async lab => [await endpointOf(lab)]],
	'webhook enable': ['webhook.enabled', async lab => [await endpointOf(lab)]],
	'webhook remove': ['webhook.removed', async lab => [await endpointOf(lab), '--yes']],
	'webhook replay': ['webhook.replayed', () => ['--since', '1h']],
	'queue hold': ['queue.held', async ({recipients}) => await recipients()],
	'queue release': ['queue.released', async ({recipients}) => await recipients()],
	'queue flush': [
		'queue.flushed',
		async ({store}) => {
			await changeRecipients(store.database, all => all, {next_attempt_at: storeTime(Date.now() + day)});
			return [];
		},
	],
	'queue drop': ['queue.dropped', async ({recipients}) => [(await recipients())[0] ?? '', '--yes']],
	'queue fail': ['queue.failed', async ({recipients}) => [(await recipients())[1] ?? '']],
	'queue suspend': ['queue.suspended', () => ['x.example']],
	'queue resume': ['queue.resumed', () => ['x.example']],
	'message reschedule': ['message.rescheduled', async lab => [await messageOf(lab), '+2h']],
	'message cancel': ['message.cancelled', async lab => [await messageOf(lab)]],
};

/** Verbs that record no entry, and why. */
const none: Readonly<Record<string, string>> = {
	serve: 'the daemon; a fresh store gets what init makes',
	migrate: 'changes the form of the store and nothing in it',
	send: 'a send: the message itself is the record',
	'message resend': 'a send',
	'bounce ingest': 'takes mail in as the listener does: the report is the record',
	'template pull': 'writes files only',
	'webhook test': 'stores nothing',
	'smarthost import': 'its row is that of suppression import (test/resources/suppressions/import-cli.test.ts)',
	'workspace use': 'writes cli.json only',
	'webhook listen': 'its endpoint lives as long as the command, and leaves the rows of one',
	'workspace delete': 'its row has a test of its own, as it ends the workspace of this one',
	backup: 'reads only',
	restore: 'the trail is that of the backup',
	apply: 'each of its changes has the row of its own verb',
	bench: 'measures a store of its own; the templates and workspaces that --fill makes have their own rows',
	...Object.fromEntries(
		[
			...[
				'doctor',
				'stats',
				'tls',
				'completion',
				'export',
				'config show',
				'config check',
				'config pace',
				'audit list',
			],
			...['workspace list', 'workspace show', 'key list', 'user list', 'node list', 'domain list', 'domain show'],
			...['domain dmarc'],
			...[
				'sender list',
				'template list',
				'template show',
				'template preview',
				'suppression list',
				'suppression check',
			],
			...['suppression export', 'topic list', 'message list', 'message events', 'message show', 'message raw'],
			...['contact list'],
			...[
				'contact show',
				'webhook list',
				'webhook show',
				'webhook deliveries',
				'bounce unmatched',
				'bounce explain',
			],
			...['queue summary', 'queue list', 'queue why', 'queue trace', 'smarthost list', 'smarthost show'],
			...['alert list', 'alert test', 'certificate list', 'certificate show'],
			...['smarthost test', 'inbound list', 'inbound show'],
		].map(name => [name, 'reads only']),
	),
};

function verbsOf(command: Command, path: readonly string[] = []): string[] {
	return command.commands.flatMap(each => {
		const here = [...path, each.name()];
		return each.commands.length > 0 ? verbsOf(each, here) : [here.join(' ')];
	});
}

async function prepare(t: ExecutionContext): Promise<Lab> {
	const zone: Zone = {};
	const dns = await startFakeDns(t, zone);
	const cli = await newCli(t, {
		SUDO_USER: 'ann',
		MAILCTL_DNS_SERVERS: dns.server,
		MAILCTL_RETURN_PATH_DOMAIN: 'bounces.mail.example',
	});
	const {id: workspaceId} = await cli.json<{id: string}>('workspace', 'create', '--name', 'acme');
	const store = await cli.store();
	await insertMessages(store, workspaceId, ['one@x.example', 'two@x.example']);
	return {
		cli,
		zone,
		store,
		workspaceId,
		recipients: async () => await store.reader('recipients').orderBy('id').pluck('id'),
		made: async (...args) => (await cli.json<{id: string}>(...args, '--workspace', 'acme')).id,
	};
}

test('every command that changes something records who did what, and from where', async t => {
	t.deepEqual(verbsOf(await mailctl()).toSorted(), [...Object.keys(acts), ...Object.keys(none), 'init'].toSorted());
	const lab = await prepare(t);
	const {cli} = lab;
	const user = `cli:${userInfo().username}`;
	const documented = readFileSync('docs/reference/audit.md', 'utf8');
	for (const [verb, [action, call]] of Object.entries(acts)) {
		const [noun, act] = action.split('.');
		t.regex(documented, new RegExp(`\\| \`${noun}\` \\|.*\`${act}\``), action);
		const args = await call(lab);
		const before = await lab.store.reader('audit').max({id: 'id'}).first();
		const named = /^(?:queue|secrets)/.test(verb) ? [] : ['--workspace', 'acme'];
		await cli.json(...verb.split(' '), ...args, ...named);
		const [entry] = await cli.json<Entry[]>('audit', 'list', '--limit', '1');
		t.not(entry?.id, before?.id, verb);
		t.like(entry, {action, actor: user, from: hostname(), detail: {sudo_user: 'ann'}}, verb);
		t.notRegex(JSON.stringify(entry), /hunter2|s3cret|jane-|key_live/, verb);
	}
	t.deepEqual(
		(await cli.json<Entry[]>('audit', 'list'))
			.filter(({action}) => action === 'suppression.imported')
			.map(({detail}) => detail),
		[{added: 1200, listed: 0, sudo_user: 'ann'}],
		'one row for the three transactions of the import',
	);
});

test('init records an audit entry for each object it creates', async t => {
	const cli = await newCli(t);
	await cli.json('init');
	const entries = await cli.json<Entry[]>('audit', 'list');
	t.deepEqual(entries.map(({action}) => action).toReversed(), [
		'workspace.created',
		'domain.added',
		'sender.added',
		'template.created',
		'template.version_created',
		'key.created',
		'key.created',
		'user.added',
	]);
});

test('audit list prints the newest entries first and filters by workspace and time', async t => {
	const cli = await newCli(t);
	const [a, b] = [
		await cli.json<{id: string}>('workspace', 'create', '--name', 'a'),
		await cli.json<{id: string}>('workspace', 'create', '--name', 'b'),
	];
	await cli.json('queue', 'suspend', 'x.example');
	const targets = async (...args: readonly string[]) =>
		(await cli.json<Entry[]>('audit', 'list', ...args)).map(({target}) => target);
	t.deepEqual(await targets(), ['x.example', b.id, a.id]);
	t.deepEqual(await targets('--limit', '2'), ['x.example', b.id]);
	t.deepEqual(await targets('--workspace', 'a'), [a.id]);
	t.deepEqual(await targets('--since', '1h'), ['x.example', b.id, a.id]);
	t.deepEqual(await targets('--since', storeTime(Date.now())), []);
	const text = await cli.text('audit', 'list');
	t.regex(
		text,
		/^UTC +ACTOR +FROM +ACTION +TARGET\n\d{4}-\d\d-\d\d \d\d:\d\d:\d\d +cli:\S+ +\S+ +queue\.suspended +x\.example\n/,
	);
});
