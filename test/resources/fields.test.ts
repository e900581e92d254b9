import test from 'ava';
import fc from 'fast-check';
import {addFieldOptions, readFieldOptions} from '../../src/cli/field-options.ts';
import {CliCommand} from '../../src/cli/program.ts';
import {fieldInputs, readFields} from '../../src/dashboard/operation-form.ts';
import {Type} from '../../src/mail/type.ts';
import {
	type Field,
	field,
	fieldText,
	listFields,
	optionalOrNull,
	parseField,
	valueAt,
} from '../../src/resources/fields.ts';
import {Refused} from '../../src/resources/operation.ts';
import {workspaceInput} from '../../src/resources/workspaces/settings.ts';

const input = Type.Object({
	name: field(Type.String({format: 'label'}), {description: 'Name of it.'}),
	lifetime: field(optionalOrNull(Type.Integer({minimum: 1, maximum: 1000})), {unit: 'seconds', default: '4d'}),
	look: Type.Object({color: field(optionalOrNull(Type.Enum(['red', 'blue'])), {option: 'color <word>'})}),
	open: field(Type.Optional(Type.Boolean()), {label: 'Open to all', description: 'Whether it is open.'}),
});
const fields = listFields(input);

test('lists the fields of nested objects too, and shows nothing of their annotations in JSON', t => {
	t.deepEqual(
		fields.map(({name, label, kind, isRequired, isNullable}) => [name, label, kind, isRequired, isNullable]),
		[
			['name', 'Name', 'text', true, false],
			['lifetime', 'Lifetime', 'duration', false, true],
			['look.color', 'Color', 'choice', false, true],
			['open', 'Open to all', 'flag', false, false],
		],
	);
	t.is(
		JSON.stringify(input.properties.name),
		JSON.stringify({type: 'string', format: 'label', description: 'Name of it.'}),
	);
	t.deepEqual(input.required, ['name', 'look']);
	t.is(listFields(Type.Object({open: Type.Optional(input.properties.open)}))[0]?.label, 'Open to all');
});

test('a command reads the options that follow from the fields', t => {
	const command = addFieldOptions(new CliCommand('update').exitOverride(), fields.slice(1));
	t.deepEqual(
		command.options.map(({flags, description}) => `${flags}: ${description}`),
		[
			'--lifetime <duration>: ; default: 4d',
			'--color <word>:  (red, blue)',
			'--open: whether it is open',
			'--no-open: turn off --open',
		],
	);
	const read = (...args: readonly string[]) => {
		const parsed = addFieldOptions(new CliCommand('update').exitOverride(), fields.slice(1));
		return readFieldOptions(fields, parsed.parse(args, {from: 'user'}).opts());
	};
	t.deepEqual(read(), {});
	t.deepEqual(read('--lifetime', '5m', '--color', 'red', '--no-open'), {
		...{lifetime: 300, look: {color: 'red'}, open: false},
	});
	t.deepEqual(read('--lifetime', 'default', '--color', 'none', '--open'), {
		...{lifetime: null, look: {color: null}, open: true},
	});
	t.throws(() => read('--color', 'green'), {message: '--color "green" is not allowed, use red or blue'});
	t.throws(() => read('--color', 'default'), {message: '--color "default" is not allowed, use red or blue'});
	t.throws(() => read('--lifetime', 'x'), {message: /--lifetime "x" is not allowed, use a duration/});
	t.throws(() => read('--lifetime', '20m'), {message: '--lifetime "20m" is not allowed, use at most 1000s'});
});

test('a text that cannot be cleared may be none, and a secret may come from standard input', t => {
	const key = field(Type.Optional(Type.String()), {description: 'Key of it.', isSecret: true});
	const own = listFields(Type.Object({key}));
	const command = addFieldOptions(new CliCommand('create'), own);
	t.is(command.options[0]?.description, 'key of it; - reads it from standard input');
	t.deepEqual(readFieldOptions(own, command.parse(['--key', 'none'], {from: 'user'}).opts()), {key: 'none'});
});

test('a form shows what is set, or what was typed, and reads it back', t => {
	const values = {name: 'a', lifetime: 90, look: {color: 'blue'}, open: true};
	const {markup} = fieldInputs(fields, {values});
	t.regex(markup, /name="name"[^>]* value="a"[^>]* required/);
	t.regex(markup, /name="lifetime"[^>]* value="90s"[^>]* placeholder="4d"/);
	t.regex(markup, /value="blue" selected/);
	t.regex(markup, /name="open" value="true" checked/);
	const typed = new URLSearchParams({name: '<b>', lifetime: 'x'});
	t.regex(fieldInputs(fields, {values, typed}).markup, /value="&lt;b&gt;"[\s\S]*value="x"[\s\S]*value="true">/);

	const read = (form: Readonly<Record<string, string>>) => readFields(fields, new URLSearchParams(form));
	t.deepEqual(read({name: ' a ', lifetime: '90s', 'look.color': 'blue', open: 'true'}), values);
	t.deepEqual(read({name: 'a', lifetime: ''}), {name: 'a', lifetime: null, open: false});
	t.throws(() => read({}), {instanceOf: Refused});
});

const lists = listFields(
	Type.Object({
		sizes: field(Type.Array(Type.Enum(['s', 'm', 'l']), {minItems: 1}), {
			option: 'size <size>',
			description: 'The `sizes`.',
			meanings: {s: 'small'},
		}),
		words: field(Type.Optional(Type.Array(Type.String({format: 'topic-code'}), {maxItems: 3})), {
			option: 'word <word>',
			description: 'An array: `["a", "b"]`.',
			help: 'Words of `it`.',
		}),
	}),
);

test('a command reads a list from repeated options, or from one with commas', t => {
	const command = () => addFieldOptions(new CliCommand('sort').exitOverride(), lists);
	t.deepEqual(
		command().options.map(({flags, description}) => `${flags}: ${description}`),
		[
			'--size <size>: the sizes (s, m, l); repeatable, or separated by commas',
			'--word <word>: words of it; repeatable, or separated by commas',
		],
	);
	const read = (...args: readonly string[]) => readFieldOptions(lists, command().parse(args, {from: 'user'}).opts());
	t.deepEqual(read('--size', 's,l', '--size', 'l'), {sizes: ['s', 'l']});
	t.deepEqual(read('--size', 's', '--word', 'a, b', '--word', 'c'), {sizes: ['s'], words: ['a', 'b', 'c']});
	t.deepEqual(read('--size', 's', '--word', 'none'), {sizes: ['s'], words: []});
	t.throws(() => read('--size', 'none'), {message: '--size "none" is not allowed, use s, m, l'});
	t.throws(() => read('--size', 's,x'), {message: '--size "x" is not allowed, use s, m, l'});
	t.throws(() => read('--size', 's', '--word', ''), {message: /--word "" is not allowed/});
	t.throws(() => read('--size', 's', '--word', 'a,'), {message: /--word "" is not allowed/});
	t.throws(() => read('--size', 's', '--word', 'a,b,c,d'), {message: /use at most 3 values/});
	t.is(fieldText({kind: 'choice'}, ['s', 'l']), 's, l');
});

test('a form has a box for each choice of a list, and one text for other lists', t => {
	const {markup} = fieldInputs(lists, {values: {sizes: ['m'], words: ['a', 'b']}});
	t.regex(markup, /<legend>Sizes<\/legend>.*value="s"><span>s: small<.*value="m" checked><span>m</s);
	t.regex(markup, /name="words"[^>]*value="a, b"/);
	t.regex(markup, /Words of <code>it<\/code>\./);
	const typed = new URLSearchParams([
		['sizes', 's'],
		['sizes', 'l'],
		['words', ' a ,b'],
	]);
	t.regex(
		fieldInputs(lists, {values: {sizes: ['m']}, typed}).markup,
		/value="s" checked.*value="m">.*value="l" checked/s,
	);
	t.deepEqual(readFields(lists, typed), {sizes: ['s', 'l'], words: ['a', 'b']});
	t.deepEqual(readFields(lists, new URLSearchParams({sizes: 's'})), {sizes: ['s']});
	t.deepEqual(readFields(lists, new URLSearchParams({sizes: 's', words: ''})), {sizes: ['s'], words: []});
	t.throws(() => readFields(lists, new URLSearchParams()), {instanceOf: Refused});
	t.throws(() => readFields(lists, new URLSearchParams({sizes: 'x'})), {instanceOf: Refused});
	t.throws(() => readFields(lists, new URLSearchParams({sizes: 's', words: 'a b c d'})), {instanceOf: Refused});
});

test('a field with a default may be left empty in a form', t => {
	const id = field(Type.Optional(Type.String({format: 'template-id'})), {default: 'generated'});
	const listed = listFields(Type.Object({id}));
	t.notRegex(fieldInputs(listed, {}).markup, / required/);
	t.deepEqual(readFields(listed, new URLSearchParams({id: ''})), {});
});

test('every setting of a workspace reads the text that it writes', t => {
	for (const each of listFields(workspaceInput).filter(({kind}) => ['count', 'duration', 'size'].includes(kind))) {
		const {minimum = 0, maximum = 0} = each.schema;
		fc.assert(
			fc.property(fc.integer({min: minimum, max: maximum}), value => {
				t.deepEqual(parseField(each, fieldText(each, value)), {ok: true, value});
			}),
			{numRuns: 50},
		);
		t.false(parseField(each, fieldText(each, maximum + 1)).ok, each.name);
	}
});

test('any text is read as a value of the schema or refused with a reason', t => {
	fc.assert(
		fc.property(fc.constantFrom(...listFields(workspaceInput)), fc.string(), (each, text) => {
			const parsed = parseField(each, text);
			t.true(parsed.ok || parsed.problem !== '', each.name);
		}),
	);
	t.is(valueAt({a: {b: 1}}, 'a.b'), 1);
	t.is(valueAt({}, 'a.b'), undefined);
});

const camel = Type.Object({
	replyTo: field(Type.String({format: 'email'}), {description: 'Where `replies` go.'}),
	colorName: Type.Optional(Type.Enum(['red', 'blue'])),
	shown: Type.Enum(['red', 'blue']),
});

test('the name of a property in camel case becomes words, and only what may be null is cleared by none', t => {
	const camelFields = listFields(camel);
	t.deepEqual(
		camelFields.map(({label}) => label),
		['Reply to', 'Color name', 'Shown'],
	);
	const command = addFieldOptions(new CliCommand('create').exitOverride(), [camelFields[0] as Field], {
		replyTo: text => text,
	});
	t.is(
		command.options.map(({flags, description}) => `${flags}: ${description}`)[0],
		'--reply-to <to>: where replies go',
	);
	t.deepEqual(readFieldOptions(camelFields, command.parse(['--reply-to', 'none'], {from: 'user'}).opts()), {
		replyTo: 'none',
	});
});

test('the form of a new object requires only required fields, and leaves out what is empty', t => {
	const camelFields = listFields(camel);
	const {markup: form} = fieldInputs(camelFields, {});
	t.regex(form, /<input type="email" name="replyTo"[^>]* required/);
	t.regex(form, /<select name="colorName"><option value="" selected>none/);
	t.regex(form, /<select name="shown"><option value="red">/);
	const sent = new URLSearchParams({replyTo: 'a@example.com', colorName: '', shown: 'red'});
	t.deepEqual(readFields(camelFields, sent), {replyTo: 'a@example.com', shown: 'red'});
});
