import {fieldColumns} from '../../cli/field-options.ts';
import type {CliCommand} from '../../cli/program.ts';
import {grouped, type Noun} from '../../cli/terminal-text.ts';
import {listVerb, operationVerb} from '../../cli/verbs.ts';
import {storedTime, topicView} from '../views.ts';
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
import type {Topic} from './store.ts';

const maxTopics = 10_000;

export function topicCommands(topic: CliCommand): void {
	operationVerb(topic, createTopic, {
		sample: "mailctl topic create --code news --name 'Monthly news'",
		shows: topics,
	});
	operationVerb(topic, updateTopic, {
		by: 'code',
		sample: "mailctl topic update news --public --description 'What is new, once a month'",
		shows: topics,
	});

	listVerb(topic, 'List topics with their opt-outs, newest first', counted, (reader, workspaceId) =>
		countedTopics(reader, workspaceId, maxTopics),
	);
	operationVerb(topic, removeTopic, {
		by: 'id|code',
		kind: 'usg',
		sample: 'mailctl topic remove news --yes',
		question: (_session, text) =>
			`Remove the topic ${text}? Unsubscribe links in its messages will then stop all messages.`,
		shows(session, removed) {
			const text = `removed ${removed.code}; its opt-outs are retained`;
			session.show({...topicView(removed, storedTime), removed: true}, () => [text]);
		},
	});
	operationVerb(topic, purgeTopic, {
		by: 'code',
		sample: 'mailctl topic purge news --yes',
		async question(session, code) {
			const {reader, workspaceId} = await session.inWorkspace();
			const optOutCount = grouped(await readOptOuts(reader, workspaceId, code));
			return `Delete ${optOutCount} opt-outs of ${code}? These people will receive its messages again.`;
		},
		shows(session, forgotten, {code}) {
			session.show({code, forgotten}, () => [`deleted ${grouped(forgotten)} opt-outs of ${code}`]);
		},
	});
}

const noTopics = 'no topics; create one with mailctl topic create';

const topics: Noun<Topic> = {
	none: noTopics,
	json: row => topicView(row, storedTime),
	fields: [{name: 'id', cell: row => row.id}, ...fieldColumns(createTopic.input, toValues)],
};

const counted: Noun<CountedTopic> = {
	none: noTopics,
	json: ({topic, code, optedOut: opted_out}) =>
		topic
			? {...topicView(topic, storedTime), opted_out}
			: {id: null, code, name: null, opted_out, created_at: null},
	fields: [
		{title: 'ID', cell: row => row.topic?.id ?? 'removed', id: true},
		{title: 'CODE', cell: row => row.code, cut: true},
		{title: 'NAME', cell: row => row.topic?.name ?? null, cut: true},
		{title: 'PUBLIC', cell: row => (row.topic?.public_at ? 'yes' : null)},
		{title: 'REQUIRED', cell: row => (row.topic?.required_at ? 'yes' : null)},
		{title: 'OPTED OUT', cell: row => grouped(row.optedOut), right: true},
	],
};
