import {
	act,
	badge,
	checkbox,
	code,
	count,
	input,
	inputs,
	name,
	opened,
	select,
	table,
	textarea,
	time,
} from '../../dashboard/markup.ts';
import {checkTyped, operationForms} from '../../dashboard/operation-form.ts';
import type {DashboardParts} from '../../dashboard/parts.ts';
import {type Answer, page, type Route, type Visit} from '../../dashboard/route.ts';
import {type Html, html} from '../../hosted/html.ts';
import {type Priority, priorities} from '../../mail/message.ts';
import {notFound} from '../operation.ts';
import {
	type CountedTopic,
	countedTopics,
	createTopic,
	purgeTopic,
	readOptOuts,
	removeTopic,
	updateTopic,
} from './rules.ts';
import {lookUpTopic} from './store.ts';

const path = '/topics';
/** More are not shown. A list for recipients is much shorter. */
const maxTopics = 1000;

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
					{title: 'Name', cell: nameCell, cut: true},
					{title: 'Opted out', cell: row => count(row.optedOut), right: true},
					{title: 'Since', cell: row => time(row.topic?.created_at ?? null, now), right: true, wide: true},
					...(mayAct ? [{title: '', cell: rowActs, right: true as const}] : []),
				],
				rows: await countedTopics(parts.reader, workspace.id, maxTopics),
				empty: html`<p>No topics yet.</p><p>With a topic (<code>unsubscribeGroup</code> of a send) recipients can unsubscribe from newsletters and still get receipts.</p>`,
			}),
		};
	}

	const form = operationForms(parts, {path, show: list});

	return [
		page(path, list),
		form(createTopic, path, ({code}) => `Made the topic ${code}.`, {read: toInput}),
		form(updateTopic, `${path}/:code/update`, topic => `Recipients now see ${topic.name}.`, {
			async before({workspace, params: {code = ''}}) {
				(await lookUpTopic(parts.reader, workspace.id, code)) ?? notFound('topic', code);
			},
			read: toInput,
		}),
		form(removeTopic, `${path}/:code/remove`, ({code}) => `Removed ${code}; who opted out is remembered.`),
		form(purgeTopic, `${path}/:code/purge`, (n, {params}) => `Forgot ${count(n)} opt-outs of ${params.code}.`, {
			async before(visit) {
				const {code = ''} = visit.params;
				await readOptOuts(parts.reader, visit.workspace.id, code);
				checkTyped(visit, code, `Nothing was forgotten: type ${code} to forget who opted out of it.`);
			},
		}),
	];
}

function rowActs({code: topicCode, topic, optedOut}: CountedTopic): Html {
	const to = (verb: string) => `${path}/${topicCode}/${verb}`;
	const fields = html`${input({name: 'name', label: 'Name', value: topic?.name ?? '', required: true})}${topic && ofMail(topic)}`;
	return opened(
		'Change',
		html`${topic && html`${act({to: to('update'), label: 'Save', fields})}${act({to: to('remove'), label: 'Remove the topic', look: 'danger'})}`}${
			optedOut > 0
				? act({to: to('purge'), label: 'Forget who opted out', look: 'danger', typed: topicCode})
				: null
		}`,
	);
}

const topicForm = (form: URLSearchParams): Html =>
	act({
		to: path,
		label: 'Make the topic',
		fields: html`${inputs(form, [
			{name: 'code', label: 'Code', hint: 'What sends name, such as news'},
			{name: 'name', label: 'Name', hint: 'What recipients see, such as Monthly news'},
		])}${ofMail({
			public_at: form.get('public'),
			required_at: form.get('required'),
			description: form.get('description'),
			priority: form.get('priority'),
		})}`,
	});

/** What is set of a topic, or was typed. */
const ofMail = (
	topic: Readonly<Record<'public_at' | 'required_at' | 'description' | 'priority', string | null>>,
): Html =>
	html`${textarea(
		{
			name: 'description',
			label: 'What its mail is for',
			value: topic.description ?? '',
			hint: 'People read it on their pages; may be empty',
		},
		2,
	)}${select({name: 'priority', label: 'Priority', value: topic.priority ?? ''}, [
		{value: '', label: 'as the template says'},
		...priorities.map(value => ({value, label: value})),
	])}${checkbox('public', 'true', 'People find it on the preference page', topic.public_at !== null)}${checkbox(
		'required',
		'true',
		'Its mail is needed: its unsubscribe page offers to stop everything else',
		topic.required_at !== null,
	)}`;

function toInput({form, params}: Visit) {
	const text = (field: string) => form.get(field)?.trim() ?? '';
	return {
		code: params.code ?? text('code'),
		name: text('name'),
		public: form.has('public'),
		required: form.has('required'),
		description: text('description') || null,
		// What is no priority is refused with the form.
		priority: (text('priority') || null) as Priority | null,
	};
}

function nameCell({topic}: CountedTopic): Html {
	return topic
		? html`${name(topic.name)}${topic.public_at && html` ${badge('public', 'good')}`}${topic.required_at && html` ${badge('required', 'busy')}`}`
		: badge('removed', 'idle');
}
