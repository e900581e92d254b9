import {fieldColumns, operationVerb} from '../../cli/field-options.ts';
import type {CliCommand} from '../../cli/program.ts';
import {grouped, type Noun} from '../../cli/terminal-text.ts';
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

	topic
		.verb('list', 'List topics with their opt-outs, newest first')
		.sample('mailctl topic list')
		.does(async session => {
			const {reader, workspaceId} = await session.inWorkspace();
			session.list(counted, await countedTopics(reader, workspaceId, maxTopics));
		});

	topic
		.verb('remove <id|code>', 'Remove a topic; its opt-outs apply again if the code is reused')
		.sample('mailctl topic remove news --yes')
		.yesOption()
		.does<{yes?: boolean}, [string]>(async (session, {yes}, text) => {
			const id = await session.idOf('usg', text);
			await session.workspace();
			const question = `Remove the topic ${text}? Unsubscribe links in its messages will then stop all messages.`;
			await session.confirm(question, yes);
			const removed = await session.perform(removeTopic, id === undefined ? {code: text} : {id});
			session.show({...topicView(removed, storedTime), removed: true}, () => [
				`removed ${removed.code}; its opt-outs are retained`,
			]);
		});

	topic
		.verb('purge <code>', 'Delete all opt-outs of a topic code')
		.sample('mailctl topic purge news --yes')
		.yesOption()
		.does<{yes?: boolean}, [string]>(async (session, {yes}, code) => {
			const known = await readOptOuts(await session.reader(), (await session.workspace()).id, code);
			await session.confirm(
				`Delete ${grouped(known)} opt-outs of ${code}? These people will receive its messages again.`,
				yes,
			);
			const forgotten = await session.perform(purgeTopic, {code});
			session.show({code, forgotten}, () => [`deleted ${grouped(forgotten)} opt-outs of ${code}`]);
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
