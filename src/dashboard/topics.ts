import {type Html, html} from '../hosted/html.ts';
import {notFound} from '../ops/operation.ts';
import {
	type CountedTopic,
	countedTopics,
	createTopic,
	optOutsOf,
	purgeTopic,
	removeTopic,
	renameTopic,
} from '../ops/topics.ts';
import {lookUpTopic} from '../store/topics.ts';
import {act, badge, code, count, input, inputs, name, opened, table, time} from './markup.ts';
import {checkTyped, operationForms} from './operation-form.ts';
import type {DashboardParts} from './parts.ts';
import {type Answer, page, type Route, type Visit} from './route.ts';

const path = '/topics';
/** More are not shown. A list for recipients is much shorter. */
const mostTopics = 1000;

/** What recipients may unsubscribe from alone. */
export function topicPages(parts: DashboardParts): readonly Route[] {
	async function list(visit: Visit, problem: string | null = null): Promise<Answer> {
		const {workspace, form, now} = visit;
		const mayAct = visit.may('operator');
		return {
			kind: 'page',
			problem,
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
				rows: await countedTopics(parts.reader, workspace.id, mostTopics),
				empty: html`<p>No topics yet.</p><p>With a topic (<code>unsubscribeGroup</code> of a send) recipients can unsubscribe from newsletters and still get receipts.</p>`,
			}),
		};
	}

	const form = operationForms(parts, {path, show: list});

	return [
		page(path, list),
		form(createTopic, path, ({code}) => `Made the topic ${code}.`),
		form(renameTopic, `${path}/:code/rename`, topic => `Recipients now see ${topic.name}.`, {
			async before({workspace, params: {code = ''}}) {
				(await lookUpTopic(parts.reader, workspace.id, code)) ?? notFound('topic', code);
			},
		}),
		form(removeTopic, `${path}/:code/remove`, ({code}) => `Removed ${code}; who opted out is remembered.`),
		form(purgeTopic, `${path}/:code/purge`, (n, {params}) => `Forgot ${count(n)} opt-outs of ${params.code}.`, {
			async before(visit) {
				const {code = ''} = visit.params;
				await optOutsOf(parts.reader, visit.workspace.id, code);
				checkTyped(visit, code, `Nothing was forgotten: type ${code} to forget who opted out of it.`);
			},
		}),
	];
}

function rowActs({code: topicCode, topic, optedOut}: CountedTopic): Html {
	const to = (verb: string) => `${path}/${topicCode}/${verb}`;
	const fields = input({name: 'name', label: 'Name', value: topic?.name ?? '', required: true});
	return opened(
		'Change',
		html`${topic && html`${act({to: to('rename'), label: 'Rename', fields})}${act({to: to('remove'), label: 'Remove the topic', look: 'danger'})}`}${
			optedOut > 0 ? act({to: to('purge'), label: 'Forget who opted out', look: 'danger', typed: topicCode}) : null
		}`,
	);
}

const topicForm = (form: URLSearchParams): Html =>
	act({
		to: path,
		label: 'Make the topic',
		fields: inputs(form, [
			{name: 'code', label: 'Code', hint: 'What sends name, such as news'},
			{name: 'name', label: 'Name', hint: 'What recipients see, such as Monthly news'},
		]),
	});
