import {Parser} from 'htmlparser2';

/** An XML element. Reports do not use attributes. */
export type XmlElement = {
	/** Without its namespace prefix, in lower case. */
	readonly name: string;
	text: string;
	readonly children: XmlElement[];
};

/** The bytes cannot be read as XML; the message is a clause for people. */
export class XmlProblem extends Error {}

const maxDepth = 12;
/** How many elements are held at once. */
const maxElements = 5000;
const maxTextLength = 2048;
/** Some reporters put an `xs:schema` before the document, or around it without closing it. */
const wrapperName = 'schema';
/** The only element in a schema that is not part of it. */
const documentName = 'feedback';

/**
 * Parses a document. Elements named `repeated` go to `onRepeated` and are then discarded, so that memory does not grow
 * with their number. (A parser that built the whole tree took 8 seconds for 10 MB, and ran out of memory on 10 MB of
 * empty elements.) A document type is refused, since no report has one, so entities are never expanded or fetched.
 *
 * @throws XmlProblem
 */
export function readXml(text: string, repeated: string, onRepeated: (element: XmlElement) => void): XmlElement {
	const open: XmlElement[] = [];
	let root: XmlElement | undefined;
	let elementCount = 0;
	const parser = new Parser(
		{
			onopentagname(tagName) {
				const element = {name: tagName.slice(tagName.indexOf(':') + 1), text: '', children: []};
				elementCount++;
				if (open.length >= maxDepth || elementCount > maxElements) {
					throw new XmlProblem(
						open.length >= maxDepth ? 'its elements are nested too deeply' : 'it has too many elements',
					);
				}
				if (element.name !== repeated) {
					open.at(-1)?.children.push(element);
				}
				// A schema and its contents are the root only until the document starts.
				const isInSchema = open.some(({name}) => name === wrapperName);
				const isDocument = element.name === documentName || (element.name !== wrapperName && !isInSchema);
				if (root === undefined || (root.name === wrapperName && isDocument)) {
					root = element;
				}
				open.push(element);
			},
			ontext(piece) {
				const element = open.at(-1);
				if (element !== undefined && element.text.length < maxTextLength) {
					element.text += piece.slice(0, maxTextLength);
				}
			},
			onclosetag(_name, isImplied) {
				const element = open.pop() as XmlElement;
				if (isImplied && element.name !== wrapperName && !isEmptyTag()) {
					throw new XmlProblem('it is truncated, or its tags do not match');
				}
				if (element.name === repeated && element !== root) {
					onRepeated(element);
					elementCount = 0;
				}
			},
			onprocessinginstruction(name) {
				if (name.startsWith('!')) {
					throw new XmlProblem('it has a document type, which is not allowed');
				}
			},
		},
		{xmlMode: true, lowerCaseTags: true},
	);
	/** The end of `<a/>` is implied, too. */
	const isEmptyTag = () => text.charCodeAt(parser.endIndex - 1) === 0x2f;
	parser.end(text);
	if (root === undefined) {
		throw new XmlProblem('it is not XML');
	}
	return root;
}

/** Returns the first element at a path of names in lower case. */
export function elementAt(element: XmlElement | undefined, ...path: readonly string[]): XmlElement | undefined {
	return path.reduce<XmlElement | undefined>((at, name) => at?.children.find(child => child.name === name), element);
}

/** Returns the text of an element, or an empty string if it is missing. */
export function textAt(element: XmlElement | undefined, ...path: readonly string[]): string {
	return elementAt(element, ...path)?.text.trim() ?? '';
}
