import {storedTime, topicView} from '../api/views.ts';
import {type CountedTopic, countedTopics, createTopic, optOutsOf, purgeTopic, removeTopic} from '../ops/topics.ts';
import type {Topic} from '../store/topics.ts';
import {label, topicCode} from './options.ts';
import type {CliCommand} from './program.ts';
import {grouped, type Noun} from './terminal-text.ts';

const mostTopics = 10_000;

export function topicCommands(topic: CliCommand): void {
	topic
		.verb('create', 'Create a topic')
		.sample("mailctl topic create --code news --name 'Monthly news'")
		.requiredOption('--code <code>', 'what sends name: letters, digits, hyphens, underscores', topicCode)
		.requiredOption('--name <name>', 'what recipients see', label('--name'))
		.does<{code: string; name: string}>(async (session, {code, name}) => {
			session.one(topics, await session.perform(createTopic, {code, name}));
		});

	topic
		.verb('list', 'List topics, newest first, and how many opted out')
		.sample('mailctl topic list')
		.does(async session => {
			const {reader, workspaceId} = await session.inWorkspace();
			session.list(counted, await countedTopics(reader, workspaceId, mostTopics));
		});

	topic
		.verb('remove <id|code>', 'Remove a topic; its opt-outs hold again if its code comes back')
		.sample('mailctl topic remove news --yes')
		.yesOption()
		.does<{yes?: boolean}, [string]>(async (session, {yes}, text) => {
			const id = await session.idOf('usg', text);
			await session.workspace();
			const question = `Remove the topic ${text}? Unsubscribe links of its mail will suppress for all mail.`;
			await session.confirm(question, yes);
			const removed = await session.perform(removeTopic, id === undefined ? {code: text} : {id});
			session.show({...topicView(removed, storedTime), removed: true}, () => [
				`removed ${removed.code}, its opt-outs are kept`,
			]);
		});

	topic
		.verb('purge <code>', 'Forget who opted out of a code: they get its mail again')
		.sample('mailctl topic purge news --yes')
		.yesOption()
		.does<{yes?: boolean}, [string]>(async (session, {yes}, code) => {
			const known = await optOutsOf(await session.reader(), (await session.workspace()).id, code);
			await session.confirm(`Forget ${grouped(known)} opt-outs of ${code}? These people will get its mail again.`, yes);
			const forgotten = await session.perform(purgeTopic, {code});
			session.show({code, forgotten}, () => [`forgot ${grouped(forgotten)} opt-outs of ${code}`]);
		});
}

const none = 'no topics, mailctl topic create makes one';

const topics: Noun<Topic> = {
	none,
	json: row => topicView(row, storedTime),
	fields: [
		{name: 'id', cell: row => row.id},
		{name: 'code', cell: row => row.code},
		{name: 'name', cell: row => row.name},
	],
};

const counted: Noun<CountedTopic> = {
	none,
	json: ({topic, code, optedOut: opted_out}) =>
		topic ? {...topicView(topic, storedTime), opted_out} : {id: null, code, name: null, opted_out, created_at: null},
	fields: [
		{title: 'ID', cell: row => row.topic?.id ?? 'removed', id: true},
		{title: 'CODE', cell: row => row.code, cut: true},
		{title: 'NAME', cell: row => row.topic?.name ?? null, cut: true},
		{title: 'OPTED OUT', cell: row => grouped(row.optedOut), right: true},
	],
};
