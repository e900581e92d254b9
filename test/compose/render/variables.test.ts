import test from 'ava';
import fc from 'fast-check';
import {dataPaths, missingPaths} from '../../../src/compose/render/compile.ts';
import {liquidEngines} from '../../../src/compose/render/liquid-engine.ts';

const pathsOf = (...sources: string[]) => dataPaths(liquidEngines().html, sources);

test('finds the data a template reads, but not the variables it assigns', t => {
	const source = `{% assign a = order.total %}{{ a }}{% for item in order.items %}{{ item.name }}{{ forloop.index }}{% endfor %}
		{% if note %}{{ note | upcase }}{% endif %}{{ names[0].first }}{{ labels[kind].text }}`;
	t.deepEqual(
		pathsOf(source, '{{ note }}').map(path => path.join('.')),
		['order.total', 'order.items', 'note', 'names.0.first', 'labels', 'kind'],
	);
});

test('reports missing data up to the first missing name', t => {
	const data = {order: {items: [{name: 'a'}], note: null}, word: 'x'};
	const missing = (source: string) => missingPaths(pathsOf(source), data);
	t.deepEqual(
		missing('{{ order.items.first.name }}{{ order.items.size }}{{ order.note }}{{ order.items[0].name }}'),
		[],
	);
	t.deepEqual(missing('{{ recipient.email }}{{ unsubscribe_url }}{{ workspace.name }}{{ message.id }}'), []);
	t.deepEqual(missing('{{ order.total.net }}{{ order.total.tax }}{{ shop.name }}'), ['order.total', 'shop']);
	t.deepEqual(missing('{{ order.note.text }}{{ order.constructor }}{{ word.size }}{{ word.length }}'), [
		'order.note.text',
		'order.constructor',
		'word.length',
	]);
});

test('handles any path and any data', t => {
	const path = fc.array(fc.oneof(fc.string(), fc.nat(3), fc.constantFrom('first', 'size', '__proto__')), {
		minLength: 1,
	});
	fc.assert(
		fc.property(fc.array(path), fc.dictionary(fc.string(), fc.jsonValue()), (paths, data) => {
			t.true(missingPaths(paths, data).length <= paths.length);
		}),
	);
});
