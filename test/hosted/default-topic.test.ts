import test, {type TestFn} from 'ava';
import {codeOf, startApi, type TestApi} from '../helpers/api.ts';
import {storeTest} from '../helpers/databases.ts';
import {addTopic, at, events, lists, oneClick, press, sendMail, show} from '../helpers/hosted.ts';

const serially = test.serial as TestFn;

async function setDefault({store, workspace, clear}: TestApi, code: string): Promise<void> {
	await store.database('workspaces').where({id: workspace.id}).update({default_topic: code});
	clear();
}

const topicOf = async ({store}: TestApi, id: string) =>
	await store.database('messages').where({id}).first('topic_id', 'topic_code');

storeTest(serially, 'a message without a topic gets the workspace’s default topic', async (t, store) => {
	const api = await startApi(t, store);
	const [product, news] = [await addTopic(api, 'product', 'Product mail'), await addTopic(api)];
	await setDefault(api, 'product');
	const {id, path} = await sendMail(api, {topicId: product});
	t.deepEqual({...(await topicOf(api, id))}, {topic_id: product, topic_code: 'product'});
	t.like(await topicOf(api, (await sendMail(api, {unsubscribeGroup: 'news'})).id), {topic_id: news});

	t.regex((await press(api, path, oneClick)).html, /You are unsubscribed/);
	t.deepEqual(await lists(api), ['user@example.org product one-click']);
	t.is(codeOf(await api.send()), 'recipient_unsubscribed');
	t.is((await api.send({unsubscribeGroup: 'news'})).status, 202, 'no one is locked out of the rest');

	const template = {public_id: api.workspace.templateId};
	const offers = await addTopic(api, 'offers', 'Offers');
	await store.database('templates').where(template).update({topic_code: 'offers'});
	api.clear();
	t.like(await topicOf(api, (await sendMail(api, {})).id), {topic_id: offers}, 'the template goes first');
	await store.database('templates').where(template).update({topic_code: 'gone'});
	api.clear();
	t.is(codeOf(await api.send()), 'recipient_unsubscribed', 'a topic that is gone counts as none');

	await store.database('topics').where({code: 'product'}).delete();
	api.clear();
	const later = await sendMail(api, {});
	t.deepEqual(
		{...(await topicOf(api, later.id))},
		{topic_id: null, topic_code: null},
		'a topic that is gone loses no mail',
	);
	t.is(codeOf(await api.send({unsubscribeGroup: 'product'})), 'unknown_unsubscribe_group');
	await addTopic(api, 'product', 'Product mail');
	t.is(codeOf(await api.send()), 'recipient_unsubscribed', 'a topic that appears again counts at once');
});

storeTest(
	serially,
	'the link in a message of a required topic unsubscribes from everything else, and undoes it',
	async (t, store) => {
		const api = await startApi(t, store);
		const set = {required_at: at, description: 'How to sign <in>'};
		const account = await addTopic(api, 'account', 'Your account', set);
		await addTopic(api);
		await addTopic(api, 'offers', 'Offers');
		await addTopic(api, 'invoices', 'Invoices', {required_at: at});
		const other = await sendMail(api, {unsubscribeGroup: 'offers', topicId: await topicIdOf(api, 'offers')});
		const {id, path} = await sendMail(api, {unsubscribeGroup: 'account', topicId: account});

		const {html} = await show(api, path);
		t.regex(html, /Emails about “Your account” are required/);
		t.regex(html, /How to sign &lt;in&gt;/);
		t.regex(html, /value="topic">Stop all other emails/);
		t.regex(html, /value="all">Unsubscribe from everything/);
		t.deepEqual(await lists(api), []);

		await press(api, other.path, oneClick);
		t.regex((await press(api, path, oneClick)).html, /only receive emails about “<bdi>Your account<\/bdi>”/);
		const source = `one-click:${account}`;
		const left = [
			`user@example.org  ${source}`,
			`user@example.org news ${source}`,
			'user@example.org offers one-click',
		];
		t.deepEqual(await lists(api), left);
		t.deepEqual(await events(api, id), [
			{recipient: 'user@example.org', role: 'to', topic: '', via: 'one-click'},
			{recipient: 'user@example.org', role: 'to', topic: 'news', via: 'one-click'},
		]);
		t.is((await api.send({unsubscribeGroup: 'account'})).status, 202);
		t.is((await api.send({unsubscribeGroup: 'invoices'})).status, 202);
		t.is(codeOf(await api.send({unsubscribeGroup: 'news'})), 'recipient_unsubscribed');
		t.is(codeOf(await api.send()), 'recipient_unsubscribed', 'mail without a topic is other mail');
		t.is((await api.send({to: 'else@example.org', cc: ['User@example.org']})).status, 202);

		t.is((await press(api, path, oneClick)).status, 200);
		t.deepEqual(await lists(api), left);
		await addTopic(api, 'later', 'A topic made before the undo');
		t.regex((await press(api, path, 'action=undo')).html, /You are subscribed again/);
		t.deepEqual(await lists(api), ['user@example.org offers one-click'], 'what another link did stays');
		t.is((await api.send()).status, 202);

		t.regex((await press(api, path, 'action=all')).html, /no longer receive email/);
		t.is(codeOf(await api.send({unsubscribeGroup: 'account'})), 'recipient_suppressed');
	},
);

async function topicIdOf({store, workspace}: TestApi, code: string): Promise<string> {
	return (await store.database('topics').where({workspace_id: workspace.id, code}).first('id')).id;
}
