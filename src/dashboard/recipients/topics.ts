import {createTopic, purgeTopic, removeTopic, renameTopic} from '../../admin/topics.ts';
import {type Html, html} from '../../hosted/html.ts';
import {isTopicCode} from '../../mail/message.ts';
import {labelFault} from '../../mail/unprintable.ts';
import {countOptOuts, listTopics, type Topic} from '../../store/topics.ts';
import {act, badge, code, count, input, name, opened, table, time} from '../markup.ts';
import type {DashboardParts} from '../parts.ts';
import {type Answer, go, missing, type Route, type Visit} from '../route.ts';

const path = '/topics';
/** More are not shown; nobody offers recipients so many to choose from. */
const mostTopics = 1000;

/** A topic, or the code of one that was removed while its opt-outs are kept. */
type Row = {readonly code: string; readonly topic: Topic | null; readonly optedOut: number};

/** What recipients may unsubscribe from alone. */
export function topicPages({reader, change, store: {writer}}: DashboardParts): readonly Route[] {
	async function readRows(workspaceId: string): Promise<Row[]> {
		const optOuts = await countOptOuts(reader, workspaceId);
		const topics = await listTopics(reader, {workspaceId, after: null, limit: mostTopics});
		const known = new Set(topics.map(topic => topic.code));
		return [
			...topics.map(topic => ({code: topic.code, topic, optedOut: optOuts.get(topic.code) ?? 0})),
			...[...optOuts].filter(([one]) => !known.has(one)).map(([one, optedOut]) => ({code: one, topic: null, optedOut})),
		];
	}

	async function list(visit: Visit, problem: string | null = null): Promise<Answer> {
		const {workspace, form, now} = visit;
		const mayAct = visit.may('operator');
		return {
			kind: 'page',
			...(problem !== null && {status: 422, problem}),
			place: 'topics',
			title: 'Topics',
			actions: mayAct ? opened('New topic', topicForm(form)) : html``,
			content: table({
				label: 'Topics',
				columns: [
					{title: 'Code', cell: row => code(row.code)},
					{title: 'Name', cell: row => (row.topic ? name(row.topic.name) : badge('removed', 'idle')), cut: true},
					{title: 'Opted out', cell: row => count(row.optedOut), right: true},
					{title: 'Since', cell: row => time(row.topic?.created_at ?? null, now), right: true, wide: true},
					...(mayAct ? [{title: '', cell: rowActs, right: true as const}] : []),
				],
				rows: await readRows(workspace.id),
				empty: html`<p>No topics yet.</p><p>With a topic (<code>unsubscribeGroup</code> of a send) recipients can unsubscribe from newsletters and still get receipts.</p>`,
			}),
		};
	}

	async function create(visit: Visit): Promise<Answer> {
		const [topicCode = '', label = ''] = ['code', 'name'].map(field => visit.form.get(field)?.trim() ?? '');
		if (!isTopicCode(topicCode)) {
			return await list(visit, 'The code must have 1 to 64 letters, digits, hyphens and underscores.');
		}
		const fault = labelFault(label);
		if (fault !== null) {
			return await list(visit, `The name ${fault}.`);
		}
		const input = {workspaceId: visit.workspace.id, code: topicCode, name: label};
		const made = await change(trx => createTopic(trx, visit.tools, input));
		return made
			? go(path, `Made the topic ${topicCode}.`)
			: await list(visit, `There is a topic ${topicCode} already.`);
	}

	const isKnown = async ({workspace, params}: Visit): Promise<boolean> =>
		(await readRows(workspace.id)).some(row => row.code === params.code);

	async function rename(visit: Visit): Promise<Answer> {
		if (!(await isKnown(visit))) {
			return missing('There is no such topic.');
		}
		const label = visit.form.get('name')?.trim() ?? '';
		const fault = labelFault(label);
		if (fault !== null) {
			return await list(visit, `The name ${fault}.`);
		}
		const input = {workspaceId: visit.workspace.id, code: visit.params.code ?? '', name: label};
		const renamed = await change(trx => renameTopic(trx, visit.tools, input));
		return renamed ? go(path, `Recipients now see ${label}.`) : missing('There is no such topic.');
	}

	async function remove({params, workspace, tools}: Visit): Promise<Answer> {
		const by = {code: params.code ?? ''};
		const removed = await change(trx => removeTopic(trx, tools, workspace.id, by));
		return removed
			? go(path, `Removed ${removed.code}; who opted out is remembered.`)
			: missing('There is no such topic.');
	}

	async function purge(visit: Visit): Promise<Answer> {
		const topicCode = visit.params.code ?? '';
		if (!(await isKnown(visit))) {
			return missing('There is no such topic, and nobody opted out of it.');
		}
		if (visit.form.get('typed') !== topicCode) {
			return await list(visit, `Nothing was forgotten: type ${topicCode} to forget who opted out of it.`);
		}
		const forgotten = await purgeTopic(writer.transaction, visit.tools, visit.workspace.id, topicCode);
		return go(path, `Forgot ${count(forgotten)} opt-outs of ${topicCode}.`);
	}

	return [
		{method: 'GET', path, role: 'viewer', answer: visit => list(visit)},
		{method: 'POST', path, role: 'operator', answer: create},
		{method: 'POST', path: `${path}/:code/rename`, role: 'operator', answer: rename},
		{method: 'POST', path: `${path}/:code/remove`, role: 'operator', answer: remove},
		{method: 'POST', path: `${path}/:code/purge`, role: 'operator', fresh: true, answer: purge},
	];
}

function rowActs({code: topicCode, topic, optedOut}: Row): Html {
	const to = (verb: string) => `${path}/${topicCode}/${verb}`;
	const fields = input({name: 'name', label: 'Name', value: topic?.name ?? '', required: true});
	return opened(
		'Change',
		html`${topic && html`${act({to: to('rename'), label: 'Rename', fields})}${act({to: to('remove'), label: 'Remove the topic', look: 'danger'})}`}${
			optedOut > 0 ? act({to: to('purge'), label: 'Forget who opted out', look: 'danger', typed: topicCode}) : null
		}`,
	);
}

function topicForm(form: URLSearchParams): Html {
	const fields = html`${input({name: 'code', label: 'Code', required: true, value: form.get('code') ?? '', hint: 'What sends name, such as news'})}${input(
		{
			name: 'name',
			label: 'Name',
			required: true,
			value: form.get('name') ?? '',
			hint: 'What recipients see, such as Monthly news',
		},
	)}`;
	return act({to: path, label: 'Make the topic', fields});
}
