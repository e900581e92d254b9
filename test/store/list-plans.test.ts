import test from 'ava';
import type {Command} from 'commander';
import {mailctl} from '../../src/cli/commands.ts';
import {listAudit} from '../../src/resources/audit/store.ts';
import {listDomains} from '../../src/resources/domains/store.ts';
import {listApiKeys} from '../../src/resources/keys/store.ts';
import {listKept} from '../../src/resources/received/kept-store.ts';
import {listSuppressions} from '../../src/resources/suppressions/store.ts';
import {listContacts} from '../../src/resources/topics/store.ts';
import {listDeliveries, listEndpoints} from '../../src/resources/webhooks/store.ts';
import {listMessages, type MessageFilter, readLines} from '../../src/store/message-scan.ts';
import {findWaiting, listQueue, summarizeQueue} from '../../src/store/queue/queue-summary.ts';
import type {Store} from '../../src/store/store.ts';
import {idOf, startApi} from '../helpers/api.ts';
import {storeTest} from '../helpers/databases.ts';
import {type ApiDocument, operationsOf} from '../helpers/described.ts';
import {filledRows, fillLists} from '../helpers/filled.ts';
import {readsDuring} from '../helpers/reads.ts';
import {addKey, addWorkspace, type Workspace} from '../helpers/workspace.ts';

type Filled = {
	readonly own: Workspace;
	readonly other: Workspace;
	readonly message: string;
	/** Its Message-ID. */
	readonly messageId: string;
	readonly endpointId: string;
	/** The address of one recipient, contact and suppression. */
	readonly person: string;
};
type List = (store: Store, filled: Filled) => Promise<unknown>;

/** Values for each filter of the API: one that matches many rows, one that matches few, one that matches none. */
const filters: Readonly<Record<string, (filled: Filled) => readonly string[]>> = {
	status: () => ['delivered', 'complained', 'errored'],
	recipient: ({person}) => ['many@x.test', 'rare@x.test', person, 'none@x.test'],
	from: () => ['a@x.test', 'rare@x.test', 'none@x.test'],
	templateId: ({own, other}) => [own.templateId, other.templateId, own.templateId.replace(/..$/, 'zz')],
	createdAfter: () => ['2026-01-01', '2099-01-01'],
	createdBefore: () => ['2099-01-01', '2020-01-01'],
	reason: () => ['manual', 'complaint', 'hard_bounce'],
	email: ({person}) => [person, 'none@x.test'],
	days: () => ['31'],
	mode: () => ['live', 'test'],
	scheduled: () => ['true'],
	subject: () => ['many', 'rare', 'many rare', 'none'],
	'metadata[k]': () => ['many', 'rare', 'none'],
	tag: () => ['many', 'rare', 'none'],
	messageId: ({messageId}) => [messageId],
	to: () => ['many@x.test', 'rare@x.test', 'none@x.test'],
	in_reply_to: ({message}) => [message, 'msg_none'],
	since: () => ['2026-01-01', '2099-01-01'],
	until: () => ['2099-01-01', '2020-01-01'],
};

const page = {after: null, limit: 25};

const linesOf = (reader: Store['reader'], filter: MessageFilter) =>
	listMessages(reader, filter, page.limit, ids => readLines(reader, ids));

/** Every list of the CLI by its command, with each of its filters; a string says why it is not checked. */
const lists: Readonly<Record<string, Readonly<Record<string, List>> | string>> = {
	'message list': {
		'': ({reader}, {own}) => linesOf(reader, {workspaceId: own.id}),
		status: ({reader}, {own}) => linesOf(reader, {workspaceId: own.id, status: 'complained'}),
		ofAnIdleWorkspace: ({reader}, {other}) => linesOf(reader, {workspaceId: other.id}),
		ofAnIdleSender: ({reader}, {other}) => linesOf(reader, {workspaceId: other.id, fromKey: 'a@x.test'}),
		recipient: ({reader}, {own}) => linesOf(reader, {workspaceId: own.id, toKey: 'rare@x.test'}),
		subject: ({reader}, {own}) => linesOf(reader, {workspaceId: own.id, terms: ['w:many', 'w:rare']}),
		metadata: ({reader}, {own}) => linesOf(reader, {workspaceId: own.id, terms: ['m1:k=rare']}),
		tag: ({reader}, {own}) => linesOf(reader, {workspaceId: own.id, terms: ['t:many', 'm1:k=rare']}),
		template: ({reader}, {own}) => linesOf(reader, {workspaceId: own.id, templateId: own.templateId}),
		messageId: ({reader}, {own, message}) => linesOf(reader, {workspaceId: own.id, id: message}),
		from: ({reader}, {own}) => linesOf(reader, {workspaceId: own.id, fromKey: 'rare@x.test'}),
		scheduled: ({reader}, {own}) => linesOf(reader, {workspaceId: own.id, scheduledAfter: '2026'}),
		since: ({reader}, {own}) => linesOf(reader, {workspaceId: own.id, since: Date.now(), status: 'delivered'}),
		until: ({reader}, {own}) => linesOf(reader, {workspaceId: own.id, until: 0, toKey: 'many@x.test'}),
	},
	'contact list': {'': ({reader}, {own}) => listContacts(reader, own.id, {...page, now: '2026-01-01T00:00:00.000Z'})},
	'suppression list': {
		'': ({reader}, {own}) => listSuppressions(reader, {workspaceId: own.id, ...page}),
		reason: ({reader}, {own}) => listSuppressions(reader, {workspaceId: own.id, reason: 'complaint', ...page}),
	},
	'webhook list': {'': ({reader}, {own}) => listEndpoints(reader, own.id, page)},
	'webhook deliveries': {
		'': ({reader}, {endpointId}) => listDeliveries(reader, endpointId, page),
		async status({reader}, {endpointId}) {
			for (const state of ['pending', 'delivered', 'failed', 'exhausted'] as const) {
				await listDeliveries(reader, endpointId, {...page, state});
			}
		},
	},
	'key list': {'': ({reader}, {own}) => listApiKeys(reader, own.id)},
	'domain list': {'': ({reader}, {own}) => listDomains(reader, own.id)},
	'audit list': {
		'': ({reader}, {own}) => listAudit(reader, {workspaceId: own.id, limit: 25}),
		since: ({reader}) => listAudit(reader, {since: 0, limit: 25}),
	},
	'bounce unmatched': {'': ({reader}) => listKept(reader, 25), raw: async () => undefined},
	'queue list': {
		'': ({reader}) => listQueue(reader, {limit: 25}),
		destination: ({reader}) => listQueue(reader, {destination: 'x.test', limit: 25}),
		olderThan: ({reader}) => listQueue(reader, {before: Date.now(), limit: 25}),
		held: ({reader}) => listQueue(reader, {held: true, limit: 25}),
		suspended: ({reader}) => listQueue(reader, {destinations: ['x.test'], limit: 25}),
	},
	'queue summary': {
		'': ({reader}, {own}) => summarizeQueue(reader, {now: '2099', workspaceId: own.id}),
		destination: ({reader}) => summarizeQueue(reader, {now: '2099', destination: 'x.test'}),
	},
	'queue why': {
		'': ({reader}, {own}) => findWaiting(reader, {workspaceId: own.id}),
		destination: ({reader}) => findWaiting(reader, {destination: 'x.test'}),
		olderThan: ({reader}) => findWaiting(reader, {before: Date.now()}),
	},
	'queue trace': 'reads as queue why does',
	'workspace list': 'shows all workspaces',
	'user list': 'shows all users of the dashboard',
	'node list': 'shows all nodes',
	'alert list': 'shows all alerts',
	'certificate list': 'shows all certificates',
	'smarthost list': 'shows all smarthosts',
	'inbound list': 'shows all addresses of the workspace',
	'sender list': 'shows all senders of the workspace; the API pages them',
	'template list': 'shows all templates of the workspace; the API pages them',
	'topic list': 'counts all opt-outs of the workspace',
	'suppression export': 'writes the whole list, in the pages of suppression list',
	export: 'writes what workspaces are made of, no mail and no lists of people',
};

const isList = (name: string) => /(^|-)(list|summary|why|trace|unmatched|deliveries|export)$/.test(name);
/**
 * Statistics count all messages of their days (test/store/stats.test.ts). A stream has no end and no filter that uses
 * an index. The counts of a domain are read by its id.
 */
const noList: ReadonlySet<string> = new Set(['/v1/stats', '/v1/events', '/v1/domains/{id}/dmarc']);
/** Options that do not select rows. */
const noFilters = ['limit', 'out', 'wide', 'follow', 'watch', 'csv'];

function verbsOf(command: Command, path: readonly string[] = []): Array<readonly [path: string, verb: Command]> {
	return command.commands.flatMap(each => {
		const here = [...path, each.name()];
		return each.commands.length > 0 ? verbsOf(each, here) : [[here.join(' '), each] as const];
	});
}

/**
 * Partial indexes of waiting recipients and retained messages only, which may be scanned and sorted as a whole. So may
 * the rows of one page of versions and the recipients of one message.
 */
const ofWaiting =
	/SEARCH q USING PRIMARY KEY|INDEX (?:queue_due|queue_held|inbound_kept|recipients_by_message)\b|template_variants_1 \(version_id=/;

storeTest(
	test,
	'every list and filter of the API and the CLI reads a limited number of rows',
	async (t, store, engine) => {
		const own = await addWorkspace(store, 'own');
		const other = await addWorkspace(store, 'other');
		const api = await startApi(t, store, {like: {workspace: own, key: await addKey(store, own.id)}});
		const endpointId = idOf(await api.post('/v1/webhooks', {url: 'https://x.example', events: ['delivered']}));
		const message = await fillLists(store, own, other, endpointId);
		const messageId = `${api.links.messageIdLocal(message)}@x.test`;
		const person = `u${filledRows[engine]}@x.test`;
		const filled: Filled = {own, other, endpointId, message, messageId, person};
		const faults: string[] = [];
		const check = async (name: string, list: () => Promise<unknown>) => {
			for (const {sql, fault} of await readsDuring(store, engine, list)) {
				if (fault !== null && !(engine === 'sqlite' && ofWaiting.test(fault))) {
					faults.push(`${name}\n${sql}\n${fault}`);
				}
			}
		};

		const scan = () => store.reader('messages').where({reply_to: 'x'}).select('id');
		await check('this test can fail', scan);
		t.is(faults.splice(0).length, 1);

		const document = (await (await fetch(`${api.base}/openapi.json`)).json()) as ApiDocument;
		let routes = 0;
		for (const {path, method, operation} of operationsOf(document)) {
			const given =
				operation.parameters
					?.filter(one => one.in === 'query')
					.map(({name}) => (name === 'metadata' ? 'metadata[k]' : name)) ?? [];
			const isOne = /\/(?:content|raw)$/.test(path);
			if (method !== 'GET' || !path.startsWith('/v1/') || given.length === 0 || isOne || noList.has(path)) {
				continue;
			}
			routes++;
			const id = {
				'/v1/templates': own.templateId,
				'/v1/webhooks': filled.endpointId,
				'/v1/messages': filled.message,
			};
			const base = path.replace(
				'{id}',
				Object.entries(id).find(([start]) => path.startsWith(`${start}/`))?.[1] ?? '',
			);
			const ask = async (query: string) => {
				const answer = await api.get(`${base}?${query}`);
				t.is(answer.status, 200, `${base}?${query} ${answer.text}`);
				return (answer.body as {next_cursor?: string | null}).next_cursor;
			};
			const queries = given
				.filter(name => name !== 'limit' && name !== 'cursor')
				.map(name => (filters[name]?.(filled) ?? ['?']).map(value => `${name}=${encodeURIComponent(value)}`));
			// Of two filters those matter that many rows match, and few both.
			const pairs = queries.flatMap(([many], index) =>
				queries.slice(index + 1).map(([other]) => `${many}&${other}`),
			);
			for (const query of ['', ...queries.flat(), ...pairs]) {
				await check(`${base}?${query}`, async () => {
					const cursor = await ask(query);
					if (cursor) {
						await ask(`${query}&cursor=${cursor}`);
					}
				});
			}
		}
		t.true(routes >= 11, `${routes}`);

		for (const [name, verb] of verbsOf(await mailctl()).filter(([path]) => isList(path.split(' ').at(-1) ?? ''))) {
			const list = lists[name];
			t.truthy(list, `${name} is a list that is not checked`);
			if (typeof list !== 'object') {
				continue;
			}
			const options = verb.options
				.map(option => option.attributeName())
				.filter(option => !noFilters.includes(option));
			t.deepEqual(
				options.filter(option => !(option in list)),
				[],
				`${name} has a filter that is not checked`,
			);
			for (const [filter, read] of Object.entries(list)) {
				await check(`${name} ${filter}`, () => read(store, filled));
			}
		}
		t.deepEqual(faults, []);
	},
);
