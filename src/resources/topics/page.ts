import {
	act,
	badge,
	code,
	count,
	dangerItem,
	disclosure,
	menu,
	name,
	nothing,
	table,
	time,
} from '../../dashboard/markup.ts';
import {checkTyped, fieldInputs, operationForms} from '../../dashboard/operation-form.ts';
import type {DashboardParts} from '../../dashboard/parts.ts';
import {type Answer, page, type Route, type Visit} from '../../dashboard/route.ts';
import {type Html, html} from '../../hosted/html.ts';
import {listFields} from '../fields.ts';
import {
	type CountedTopic,
	countedTopics,
	createTopic,
	purgeTopic,
	readOptOuts,
	removeTopic,
	toValues,
	updateTopic,
} from './rules.ts';

const path = '/topics';
/** The maximum number of topics on the page. */
const maxTopics = 1000;

/** The page of topics, which recipients can opt out of one by one. */
export function topicPages(parts: DashboardParts): readonly Route[] {
	async function list(visit: Visit, problem: string | null = null): Promise<Answer> {
		const {workspace, form, now} = visit;
		const mayAct = visit.may('operator');
		return {
			kind: 'page',
			problem,
			place: 'topics',
			title: 'Topics',
			actions: mayAct
				? disclosure(
						'New topic',
						act({to: path, label: 'Create topic', fields: fieldInputs(createFields, {typed: form})}),
					)
				: nothing,
			content: table({
				label: 'Topics',
				columns: [
					{title: 'Code', cell: row => code(row.code)},
					{title: 'Name', cell: nameCell, cut: true},
					{title: 'Opted out', cell: row => count(row.optedOut), right: true},
					{title: 'Since', cell: row => time(row.topic?.created_at ?? null, now), right: true, wide: true},
					...(mayAct ? [{title: '', cell: renderActions, right: true as const}] : []),
				],
				rows: await countedTopics(parts.reader, workspace.id, maxTopics),
				empty: noTopics,
			}),
		};
	}

	const form = operationForms(parts, {path, show: list});

	return [
		page(path, list),
		form(createTopic, path, ({code}) => `Created the topic ${code}.`),
		form(updateTopic, `${path}/:code/update`, ({code}) => `Updated the topic ${code}.`),
		form(removeTopic, `${path}/:code/remove`, ({code}) => `Removed the topic ${code}; its opt-outs are retained.`),
		form(purgeTopic, `${path}/:code/purge`, (n, {params}) => `Deleted ${count(n)} opt-outs of ${params.code}.`, {
			async before(visit) {
				const {code = ''} = visit.params;
				await readOptOuts(parts.reader, visit.workspace.id, code);
				checkTyped(visit, code, `Nothing was deleted: type ${code} to delete its opt-outs.`);
			},
		}),
	];
}

const noTopics = html`<p>No topics yet.</p>
<p>With topics (<code>unsubscribeGroup</code> in a send), recipients can unsubscribe from newsletters and still get
receipts.</p>`;

function renderActions({code: topicCode, topic, optedOut}: CountedTopic): Html {
	const to = (verb: string) => `${path}/${topicCode}/${verb}`;
	const fields = topic && fieldInputs(updateFields, {values: toValues(topic), isCompact: true});
	const changes = fields
		? [
				act({to: to('update'), label: 'Save', fields}),
				dangerItem({to: to('remove'), label: 'Remove topic', about: 'Its opt-outs are retained.'}),
			]
		: [];
	const about = 'Everyone who opted out receives its messages again.';
	const purge = {to: to('purge'), label: 'Delete opt-outs', about, typed: topicCode};
	return menu([...changes, ...(optedOut > 0 ? [dangerItem(purge)] : [])], 'Change');
}

const createFields = listFields(createTopic.input);
const updateFields = listFields(updateTopic.input).filter(({name}) => name !== 'code');
function nameCell({topic}: CountedTopic): Html {
	return topic
		? html`${name(topic.name)}${topic.public_at && html` ${badge('public', 'good')}`}${
				topic.required_at && html` ${badge('required', 'busy')}`
			}`
		: badge('removed', 'idle');
}
