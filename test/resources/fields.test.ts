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
	const command = addFieldOptions(new CliCommand('change').exitOverride(), fields.slice(1));
	t.deepEqual(
		command.options.map(({flags, description}) => `${flags}: ${description}`),
		[
			'--lifetime <duration>: ; default: 4d',
			'--color <word>: ',
			'--open: whether it is open',
			'--no-open: turn off --open',
		],
	);
	const read = (...args: readonly string[]) => {
		const parsed = addFieldOptions(new CliCommand('change').exitOverride(), fields.slice(1));
		return readFieldOptions(fields, parsed.parse(args, {from: 'user'}).opts());
	};
	t.deepEqual(read(), {});
	t.deepEqual(read('--lifetime', '5m', '--color', 'red', '--no-open'), {
		...{lifetime: 300, look: {color: 'red'}, open: false},
	});
	t.deepEqual(read('--lifetime', 'default', '--color', 'none', '--open'), {
		...{lifetime: null, look: {color: null}, open: true},
	});
	t.throws(() => read('--color', 'green'), {message: '--color "green" is not allowed, use red, blue'});
	t.throws(() => read('--color', 'default'), {message: '--color "default" is not allowed, use red, blue'});
	t.throws(() => read('--lifetime', '20m'), {message: /--lifetime "20m" is not allowed, use a duration/});
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
