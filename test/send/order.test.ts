import test from 'ava';
import {type Answer, codeOf, startApi, type TestApi} from '../helpers/api.ts';
import {conforms} from '../helpers/conforms.ts';
import {sqliteTest} from '../helpers/databases.ts';
import {addKey, newId} from '../helpers/workspace.ts';

const at = '2026-06-09T10:00:00.000Z';
/** Stopped, because the day of a limit must not end during the test. */
const clock = {now: () => Date.UTC(2026, 5, 9, 12), monotonic: () => 0};

/** An error of a request or of the data it refers to. Two errors of the same part exclude each other. */
type Problem = {
	readonly code: string;
	readonly request?: (prepared: Prepared) => {
		readonly bearer?: string;
		readonly type?: string;
		readonly idempotencyKey?: string;
		readonly text?: string;
	};
	readonly fields?: (prepared: Prepared) => Readonly<Record<string, unknown>>;
	readonly state?: (prepared: Prepared) => Promise<unknown>;
};

type Prepared = {
	readonly api: TestApi;
	readonly scopeless: string;
	readonly limited: string;
	readonly versionless: string;
};

const user = {address: 'user@example.org', address_key: 'user@example.org', created_at: at};
const ofNews = () => ({unsubscribeGroup: 'news'});

/** Every error of a send, in the order in which they are reported. */
const faults: readonly Problem[] = [
	{code: 'Unauthorized', request: () => ({bearer: 'key_live_x'})},
	{code: 'insufficient_scope', request: ({scopeless}) => ({bearer: scopeless})},
	{code: 'rate_limited', request: ({limited}) => ({bearer: limited})},
	{code: 'unsupported_media_type', request: () => ({type: 'text/plain'})},
	{code: 'bad_request', request: () => ({text: '{"from":'})},
	{code: 'bad_request', request: () => ({idempotencyKey: 'x'.repeat(256)})},
	{code: 'validation_failed', fields: () => ({replyTo: 'nobody'})},
	{code: 'template_required', fields: () => ({templateId: null})},
	{code: 'idempotency_key_reused', request: () => ({idempotencyKey: 'used'})},
	{code: 'sending_paused', state: ({api}) => api.store.database('workspaces').update({paused_at: at})},
	{code: 'template_not_found', fields: () => ({templateId: 'tpl_x'})},
	{code: 'template_has_no_version', fields: ({versionless}) => ({templateId: versionless})},
	{code: 'sender_not_available', fields: () => ({from: 'other@example.com'})},
	{
		code: 'recipient_suppressed',
		state: ({api: {store, workspace}}) =>
			store
				.database('suppressions')
				.insert({...user, id: newId('sup'), workspace_id: workspace.id, reason: 'manual', source: 'api'}),
	},
	{
		code: 'unknown_unsubscribe_group',
		fields: ofNews,
		state: ({api}) => api.store.database('topics').where({code: 'news'}).delete(),
	},
	{
		code: 'recipient_unsubscribed',
		fields: ofNews,
		state: ({api: {store, workspace}}) =>
			store
				.database('topic_optouts')
				.insert({...user, workspace_id: workspace.id, code: 'news', source: 'one-click'}),
	},
	{code: 'quota_exceeded', state: ({api}) => api.store.database('workspaces').update({monthly_quota: 1})},
];

function excludeEachOther(prepared: Prepared, one: Problem, other: Problem): boolean {
	const parts = ({request, fields}: Problem) => Object.entries({...request?.(prepared), ...fields?.(prepared)});
	const theirs = new Map(parts(other));
	return parts(one).some(([name, value]) => theirs.has(name) && theirs.get(name) !== value);
}

async function prepare(api: TestApi): Promise<Prepared> {
	const {store, workspace} = api;
	const versionless = newId('tpl');
	await store.database('templates').insert({
		id: versionless,
		public_id: versionless,
		workspace_id: workspace.id,
		name: 'draft',
		created_at: at,
		updated_at: at,
	});
	const limited = await addKey(store, workspace.id, {rate_limit: '1/86400'});
	await api.send({to: 'first@example.org'}, limited);
	await api.send({to: 'first@example.org'}, api.key, {'idempotency-key': 'used'});
	return {api, scopeless: await addKey(store, workspace.id, {scopes: '["messages:read"]'}), limited, versionless};
}

async function reset({api: {store, workspace, clear}}: Prepared): Promise<void> {
	await store.database('workspaces').update({paused_at: null, monthly_quota: null});
	await store.database('suppressions').delete();
	await store.database('topic_optouts').delete();
	await store.database('topics').delete();
	const topic = {id: newId('usg'), workspace_id: workspace.id, code: 'news', name: 'News', created_at: at};
	await store.database('topics').insert(topic);
	clear();
}

async function sendWith(prepared: Prepared, spoiling: readonly Problem[]): Promise<Answer> {
	const {api} = prepared;
	const {sender, templateId} = api.workspace;
	await reset(prepared);
	for (const {state} of spoiling) {
		await state?.(prepared);
	}
	const request = Object.assign({}, ...spoiling.map(fault => fault.request?.(prepared)));
	const fields = Object.assign({}, ...spoiling.map(fault => fault.fields?.(prepared)));
	return await api.post(
		'/v1/messages',
		request.text ?? {from: sender, to: user.address, templateId, ...fields},
		request.bearer ?? api.key,
		{'content-type': request.type ?? 'application/json', 'idempotency-key': request.idempotencyKey ?? newId('req')},
	);
}

const outcomeOf = (answer: Answer) =>
	answer.status === 401 ? (answer.body as {error: string}).error : (codeOf(answer) ?? String(answer.status));

sqliteTest(test, 'reports the earlier of any two errors of a send and stores nothing', async (t, store) => {
	conforms(t, 'messages.send.checks', 'messages.send.rejections', 'errors.no-message', 'overview.opt-outs');
	conforms(t, 'errors.403.insufficient_scope', 'errors.403.sending_paused');
	conforms(t, 'errors.409.idempotency_key_reused', 'errors.422.template_not_found');
	conforms(t, 'errors.422.template_has_no_version', 'errors.422.sender_not_available');
	conforms(t, 'errors.422.recipient_suppressed', 'errors.422.recipient_unsubscribed');
	conforms(t, 'errors.422.unknown_unsubscribe_group', 'errors.429.quota_exceeded');
	t.timeout(300_000);
	const prepared = await prepare(await startApi(t, store, {clock}));
	t.is(outcomeOf(await sendWith(prepared, [])), '202');
	const before = await store.reader('messages').pluck('id');
	for (const [index, first] of faults.entries()) {
		t.is(outcomeOf(await sendWith(prepared, [first])), first.code, first.code);
		for (const second of faults.slice(index + 1)) {
			if (!excludeEachOther(prepared, first, second)) {
				t.is(
					outcomeOf(await sendWith(prepared, [first, second])),
					first.code,
					`${first.code} and ${second.code}`,
				);
			}
		}
	}
	t.deepEqual(await store.reader('messages').pluck('id'), before);
	t.deepEqual(prepared.api.reported, []);
});
