import {changesIn, label, type none, oneOf, orNull, topicCode, unless} from '../../cli/options.ts';
import type {CliCommand} from '../../cli/program.ts';
import {grouped, type Noun} from '../../cli/terminal-text.ts';
import {defined} from '../../kit/collections.ts';
import {type Priority, priorities} from '../../mail/message.ts';
import {storedTime, topicView} from '../views.ts';
import {
	type CountedTopic,
	countedTopics,
	createTopic,
	purgeTopic,
	readOptOuts,
	removeTopic,
	updateTopic,
} from './rules.ts';
import type {Topic} from './store.ts';

const maxTopics = 10_000;

type Options = {
	readonly name?: string;
	readonly public?: boolean;
	readonly required?: boolean;
	readonly description?: string | typeof none;
	readonly priority?: Priority | typeof none;
};

const ofMail = (verb: CliCommand): CliCommand =>
	verb
		.option('--public', 'list it on the preference page')
		.option('--required', 'its messages are required; the unsubscribe page offers to stop everything else')
		.option(
			'--description <text>',
			'purpose of its messages, visible to recipients',
			unless(label('--description', 500)),
		)
		.option(
			'--priority <priority>',
			'priority of its messages if a send sets none',
			unless(oneOf('--priority', priorities)),
		);

export function topicCommands(topic: CliCommand): void {
	ofMail(
		topic
			.verb('create', 'Create a topic')
			.sample("mailctl topic create --code news --name 'Monthly news'")
			.requiredOption('--code <code>', 'code for sends: letters, digits, hyphens, underscores', topicCode)
			.requiredOption('--name <name>', 'name that recipients see', label('--name')),
	).does<Options & {code: string; name: string}>(async (session, {code, name, ...options}) => {
		session.one(topics, await session.perform(createTopic, {...toInput(options), code, name}));
	});

	ofMail(
		topic
			.verb('update <code>', 'Change a topic; the value none clears a setting')
			.sample("mailctl topic update news --public --description 'What is new, once a month'")
			.option('--name <name>', 'name that recipients see', label('--name')),
	)
		.option('--no-public', 'do not list it there')
		.option('--no-required', 'let recipients opt out of it')
		.does<Options, [string]>(async (session, options, code) => {
			session.one(topics, await session.perform(updateTopic, {...changesIn(toInput(options)), code}));
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

function toInput({description, priority, ...rest}: Options) {
	return defined({...rest, description: orNull(description), priority: orNull(priority)});
}

const noTopics = 'no topics; create one with mailctl topic create';

const topics: Noun<Topic> = {
	none: noTopics,
	json: row => topicView(row, storedTime),
	fields: [
		{name: 'id', cell: row => row.id},
		{name: 'code', cell: row => row.code},
		{name: 'name', cell: row => row.name},
		{name: 'public', cell: row => (row.public_at === null ? undefined : 'yes')},
		{name: 'required', cell: row => (row.required_at === null ? undefined : 'yes')},
		{name: 'description', cell: row => row.description ?? undefined},
		{name: 'priority', cell: row => row.priority ?? undefined},
	],
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
