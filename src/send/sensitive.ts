import {isObject, parseExact, writeExact} from '../kit/exact-json.ts';
import {hiddenValue} from '../mail/message.ts';

/**
 * Returns a send's variables as they are stored: `hiddenValue` replaces those that the template declares sensitive.
 * Returns `null` if there are none. A dotted name refers to a nested variable.
 *
 * @param data JSON
 */
export function withoutSensitive(data: string, names: readonly string[]): string | null {
	const variables = parseExact(data);
	const hidden = names.filter(name => hide(variables, name.split('.')));
	return hidden.length === 0 ? null : writeExact(variables);
}

/** Returns whether the variable was present. */
function hide(value: unknown, [name = '', ...path]: readonly string[]): boolean {
	// In a list, it is hidden in each item: `items.code`.
	if (Array.isArray(value)) {
		return value.map(item => hide(item, [name, ...path])).includes(true);
	}
	if (!isObject(value) || !Object.hasOwn(value, name)) {
		return false;
	}
	if (path.length > 0) {
		return hide(value[name], path);
	}
	value[name] = hiddenValue;
	return true;
}
