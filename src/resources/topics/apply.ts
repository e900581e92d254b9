import {declaration, maxItemCount} from '../apply/declaration.ts';
import {createTopic, removeTopic, toValues, updateTopic} from './rules.ts';
import {listTopics} from './store.ts';

export const declaredTopics = declaration({
	kind: 'topic',
	section: 'topics',
	schema: createTopic.input,
	key: ['code'],
	defaults: {public: false, required: false},
	omitted: ['public', 'required', 'description', 'priority'],
	async read(reader, workspaceId) {
		const topics = await listTopics(reader, {workspaceId, after: null, limit: maxItemCount});
		return topics.map(toValues);
	},
	operations: [createTopic, updateTopic, removeTopic],
	steps: {
		add: ({perform}, {declared}) => perform(createTopic, declared),
		change: ({perform}, {declared}) => perform(updateTopic, declared),
		remove: ({perform}, {known: {code}}) => perform(removeTopic, {code}),
	},
});
