import {storeTime} from '../../src/kit/time.ts';
import type {Store} from '../../src/store/store.ts';
import type {Workspace} from './workspace.ts';

/**
 * Rows of each table that a list reads. PostgreSQL plans by their number and says what it read. SQLite plans without
 * it: there it is enough that a search stops before it has read all (`maxScanned`).
 */
export const filledRows = {sqlite: 12_000, postgres: 100_000};

/** PostgreSQL ends a statement that takes long. */
const rowsAtOnce = 10_000;

/** So few rows, the oldest ones, have the rare value of each column that a list can be filtered by. */
const rare = 3;
/** So many messages, older than all of the workspace, are of the other one, which has sent none since. */
const idle = {sqlite: 2000, postgres: 40_000};
/** So many recipients are scheduled. */
const scheduled = 10_000;
/** So many received messages are retained, and half as many recipients held. */
const waiting = 200;

const at = storeTime(Date.UTC(2026, 5, 9));

/** One a millisecond: what an id has after its time. */
const sameEnd = '0'.repeat(16);

/** Rows whose every value is SQL of the row's number `i`, from 1; newer ones have higher numbers. */
async function insert(
	{database, dialect}: Store,
	table: string,
	row: Readonly<Record<string, string>>,
	{rows, newer} = {rows: filledRows[dialect.name], newer: idle[dialect.name]},
): Promise<void> {
	const id =
		dialect.name === 'sqlite'
			? `printf('%09d', i + ${newer}) || '${sameEnd}'`
			: `lpad((i + ${newer})::text, 9, '0') || '${sameEnd}'`;
	const values = Object.values(row)
		.join(', ')
		.replaceAll(/id\((\w+)\)/g, (_, prefix) => `'${prefix}_0' || ${id}`);
	for (let first = 1; first <= rows; first += rowsAtOnce) {
		const last = Math.min(first + rowsAtOnce - 1, rows);
		await database.raw(
			`insert into ${table} (${Object.keys(row).join(', ')})
			with recursive n(i) as (select ${first} union all select i + 1 from n where i < ${last})
			select ${values} from n`,
		);
	}
	if (dialect.name === 'postgres') {
		await database.raw(`analyze ${table}`);
	}
}

const rareOr = (usual: string, seldom: string) => `case when i <= ${rare} then '${seldom}' else '${usual}' end`;
const bytes = (store: Store) => (store.dialect.name === 'sqlite' ? "x'7b7d'" : "'{}'::bytea");

/**
 * Fills every table that a list reads, for the workspace itself; what it may have few of is the other workspace's.
 * All deliveries are of the endpoint. Answers a message that has all events.
 */
export async function fillLists(store: Store, own: Workspace, other: Workspace, endpointId: string): Promise<string> {
	const [ws, foreign, time] = [`'${own.id}'`, `'${other.id}'`, `'${at}'`];
	const rows = filledRows[store.dialect.name];
	const older = idle[store.dialect.name];
	const base = {id: '', workspace_id: ws, created_at: time};
	const person = {address: "'u' || i || '@x.test'", address_key: "'u' || i || '@x.test'"};
	const message = {
		...base,
		...{
			id: 'id(msg)',
			mode: rareOr('live', 'test'),
			from_address: `'${own.sender}'`,
			from_key: rareOr('a@x.test', 'rare@x.test'),
		},
		...{
			to_address: person.address,
			to_key: rareOr('many@x.test', 'rare@x.test').replace(
				'else',
				`when i > ${rows / 2} then 'u' || i || '@x.test' else`,
			),
		},
		...{template_id: rareOr(own.templateId, other.templateId), version_id: `'${own.versionId}'`, attachments: '0'},
	};
	const recipient = {
		...{id: 'id(rcp)', workspace_id: ws, message_id: 'id(msg)', ...person, role: "'to'", destination: "'x.test'"},
		...{state: rareOr('delivered', 'complained'), state_at: time, attempts: '1', crashes: '0'},
	};
	const before = {rows: older, newer: 0};
	await insert(store, 'messages', {...message, workspace_id: foreign}, before);
	await insert(store, 'recipients', {...recipient, workspace_id: foreign}, before);
	await insert(store, 'messages', message);
	await insert(store, 'recipients', recipient);
	const open = {
		recipient_id: recipient.id,
		workspace_id: ws,
		destination: recipient.destination,
		next_attempt_at: time,
	};
	const held_at = `case when i <= ${waiting / 2} then ${time} end`;
	const send_at = {send_at: "'2099'", scheduled_message: 'id(msg)'};
	await insert(store, 'queue', {...open, held_at, ...send_at}, {rows: scheduled, newer: older});
	for (const kind of ['w:', 't:', 'm1:k=']) {
		await insert(store, 'message_terms', {
			...{workspace_id: ws, term: rareOr(`${kind}many`, `${kind}rare`), message_id: 'id(msg)'},
		});
	}
	const newest = (await store.reader('messages').max('id as id').first())?.id as string;
	await insert(store, 'events', {
		...{
			id: 'id(evt)',
			message_id: `'${newest}'`,
			type: "case when i < 3 then 'queued' else 'opened' end",
			occurred_at: time,
			recorded_at: time,
		},
	});
	await insert(store, 'suppressions', {
		...{...base, id: 'id(sup)', ...person, reason: rareOr('manual', 'complaint'), source: "'api'"},
	});
	await insert(store, 'contacts', {...base, id: 'id(con)', ...person, updated_at: time});
	await insert(store, 'topics', {...base, id: 'id(usg)', code: "'t' || i", name: "'T'"});
	await insert(store, 'senders', {...base, id: 'id(snd)', domain_id: `'${own.domainId}'`, ...person});
	await insert(store, 'templates', {
		...base,
		id: 'id(tpl)',
		public_id: "'tpl_' || i",
		name: "'t' || i",
		updated_at: time,
	});
	await insert(store, 'template_versions', {
		...{id: 'id(tpv)', template_id: `'${own.templateId}'`, version: 'i + 1', fingerprint: "'f'", created_at: time},
	});
	await insert(store, 'domains', {
		...{...base, workspace_id: foreign, id: 'id(dom)', name: "'d' || i || '.test'", ownership_token: "'t'"},
		...{state: "'verified'", state_at: time},
	});
	await insert(store, 'api_keys', {
		...{...base, workspace_id: foreign, id: 'id(key)', name: "'k'", mode: "'live'", hash: "'h' || i", hint: "'h'"},
		scopes: "'[]'",
	});
	const endpoint = {url: "'https://x.test'", events: "'[]'", secret: "''"};
	await insert(store, 'webhook_endpoints', {...base, workspace_id: foreign, id: 'id(whe)', ...endpoint});
	await insert(store, 'webhook_deliveries', {
		...{...base, id: 'id(whd)', endpoint_id: `'${endpointId}'`, event_type: "'delivered'", body: bytes(store)},
		...{state: rareOr('delivered', 'exhausted'), attempts: '1', generation: '0'},
	});
	await insert(store, 'usage_days', {workspace_id: foreign, day: "'d' || i", status: "'sent'", n: '1'});
	await insert(store, 'inbound', {
		...{id: "'m' || i", digest: "'d' || i", source: "'smtp'", rcpt_to: "'[]'", raw: bytes(store), size: '2'},
		...{received_at: `${time} || i`, read_at: time, kept: `case when i <= ${waiting} then 'unmatched' end`},
	});
	const verdict = {result: 'none', domain: null};
	const summary = JSON.stringify({
		...{from: null, recipients: [], mailFrom: '', subject: 'many', automatic: true, files: []},
		...{spf: verdict, dkim: verdict, dmarc: verdict},
	});
	await insert(store, 'received', {
		...{
			id: 'id(rcv)',
			workspace_id: ws,
			inbound_id: "'m' || i",
			summary: `'${summary}'`,
			content: "'{}'",
			received_at: time,
		},
		...{size: '2', raw: bytes(store), in_reply_to: `case when i <= ${rare} then '${newest}' end`},
	});
	for (const [usual, seldom] of [
		['to:many@x.test', 'to:rare@x.test'],
		['from:a@x.test', 'from:rare@x.test'],
		['w:many', 'w:rare'],
		['re:msg_other', `re:${newest}`],
	] as const) {
		const row = {workspace_id: ws, term: rareOr(usual, seldom), received_id: 'id(rcv)'};
		await insert(store, 'received_terms', row);
	}
	await insert(store, 'audit', {
		...{id: 'id(aud)', at: time, workspace_id: `case when i <= ${rare} then ${ws} else ${foreign} end`},
		...{actor: "'daemon'", action: "'key.created'", detail: "'{}'"},
	});
	return newest;
}
