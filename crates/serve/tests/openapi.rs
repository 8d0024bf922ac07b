//! The description of the API against the server: what it says can be asked, and what comes back is as it says.

#![allow(unreachable_pub, reason = "modules that test binaries share")]

mod world;

use std::collections::BTreeSet;

use hark_serve::Options;
use serde_json::Value;
use world::{Answer, FILES, World, coded, samples, wav};

fn document(world: &World) -> Value {
    world.get("/openapi.json").json()
}

/// Follows a reference.
fn resolve<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    match value["$ref"].as_str() {
        Some(to) => {
            let pointer = to.strip_prefix('#').expect("a reference within the document");
            resolve(
                document,
                document
                    .pointer(pointer)
                    .unwrap_or_else(|| panic!("{to} leads nowhere")),
            )
        }
        None => value,
    }
}

fn operations(document: &Value) -> Vec<(String, String, &Value)> {
    let mut all = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            all.push((method.to_uppercase(), path.clone(), operation));
        }
    }
    all
}

/// The faults of a value by a schema, of the part of JSON Schema that the description uses. A keyword that is not known here
/// is a fault, so that nothing goes unchecked.
fn faults(document: &Value, schema: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
    let schema = resolve(document, schema);
    for (keyword, rule) in schema.as_object().expect("a schema is an object") {
        let ok = match keyword.as_str() {
            "description" | "format" | "default" | "contentEncoding" | "contentMediaType" => true,
            "type" => match rule {
                Value::Array(types) => types.iter().any(|t| is(t, value)),
                one => is(one, value),
            },
            "enum" => rule.as_array().unwrap().contains(value),
            "minimum" => value.as_f64().is_none_or(|v| v >= rule.as_f64().unwrap()),
            "maximum" => value.as_f64().is_none_or(|v| v <= rule.as_f64().unwrap()),
            "maxItems" => value
                .as_array()
                .is_none_or(|v| v.len() as u64 <= rule.as_u64().unwrap()),
            "maxLength" => value
                .as_str()
                .is_none_or(|v| v.chars().count() as u64 <= rule.as_u64().unwrap()),
            "required" => {
                let names = rule.as_array().unwrap();
                value
                    .as_object()
                    .is_none_or(|v| names.iter().all(|n| v.contains_key(n.as_str().unwrap())))
            }
            "items" => {
                for (i, item) in value.as_array().into_iter().flatten().enumerate() {
                    faults(document, rule, item, &format!("{at}[{i}]"), found);
                }
                true
            }
            "properties" => {
                for (name, property) in rule.as_object().unwrap() {
                    if let Some(inner) = value.get(name) {
                        faults(document, property, inner, &format!("{at}.{name}"), found);
                    }
                }
                true
            }
            "additionalProperties" => {
                let known = schema["properties"].as_object();
                let others = value.as_object().into_iter().flatten();
                let mut others = others.filter(|(name, _)| !known.is_some_and(|k| k.contains_key(*name)));
                if let Value::Bool(allowed) = rule {
                    *allowed || others.next().is_none()
                } else {
                    for (name, inner) in others {
                        faults(document, rule, inner, &format!("{at}.{name}"), found);
                    }
                    true
                }
            }
            "pattern" => {
                assert_eq!(
                    rule, "^[0-9]{4}-[0-9]{2}-[0-9]{2}$",
                    "another pattern needs another check"
                );
                let shape = |s: &str| {
                    s.chars()
                        .map(|c| if c.is_ascii_digit() { '0' } else { c })
                        .collect::<String>()
                };
                value.as_str().is_none_or(|v| shape(v) == "0000-00-00")
            }
            _ => false,
        };
        if !ok {
            found.push(format!("{at}: {keyword} {rule} does not hold for {value}"));
        }
    }
}

fn is(kind: &Value, value: &Value) -> bool {
    match kind.as_str().unwrap() {
        "null" => value.is_null(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "number" => value.is_number(),
        "integer" => value.as_f64().is_some_and(|v| v.fract() == 0.0),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("no type: {other}"),
    }
}

/// What an answer has that the description of the operation does not allow.
fn check(document: &Value, method: &str, path: &str, answer: &Answer) {
    let operation = &document["paths"][path][method.to_lowercase()];
    let described = &operation["responses"][answer.status.to_string()];
    assert!(
        !described.is_null(),
        "{method} {path}: {} is not described: {answer:?}",
        answer.status
    );
    let described = resolve(document, described);
    for name in described["headers"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, _)| name)
    {
        let optional = ["Content-Disposition", "Set-Cookie"].contains(&name.as_str());
        let there = answer.headers.iter().any(|(n, _)| n.eq_ignore_ascii_case(name));
        assert!(there || optional, "{method} {path}: no {name} in {answer:?}");
    }
    let Some(content) = described["content"].as_object() else {
        assert!(
            answer.body.is_empty(),
            "{method} {path}: a body that is not described"
        );
        return;
    };
    let kind = answer
        .header("content-type")
        .expect("a type")
        .split(';')
        .next()
        .unwrap();
    let schema = content
        .iter()
        .find(|(k, _)| *k == kind || (k.ends_with("/*") && kind.starts_with(&k[..k.len() - 1])));
    let (_, schema) = schema.unwrap_or_else(|| panic!("{method} {path}: {kind} is not described"));
    if kind == "application/json" {
        let mut found = Vec::new();
        faults(document, &schema["schema"], &answer.json(), "", &mut found);
        assert!(found.is_empty(), "{method} {path} {}: {found:#?}", answer.status);
    }
}

#[test]
fn it_is_a_description() {
    let world = World::new(Options::default());
    let document = document(&world);
    assert_eq!(document["openapi"], "3.1.0");
    assert!(document["info"]["title"].is_string() && document["info"]["version"].is_string());
    let mut names = BTreeSet::new();
    for (method, path, operation) in operations(&document) {
        assert!(path.starts_with('/'), "{path}");
        let id = operation["operationId"].as_str().unwrap().to_owned();
        assert!(names.insert(id), "{method} {path}: its name is another's");
        assert!(operation["summary"].is_string());
        let mut seen = BTreeSet::new();
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            let parameter = resolve(&document, parameter);
            let place = parameter["in"].as_str().unwrap();
            assert!(["query", "path", "header"].contains(&place));
            assert!(
                seen.insert(parameter["name"].as_str().unwrap().to_owned()),
                "{method} {path}"
            );
            assert!(parameter["description"].is_string() && parameter["schema"].is_object());
            assert_eq!(parameter["required"] == true, place == "path");
        }
        assert_eq!(path.contains("{id}"), seen.contains("id"), "{path}");
        let responses = operation["responses"].as_object().unwrap();
        assert!(responses.contains_key("200"));
        for (status, response) in responses {
            let response = resolve(&document, response);
            assert!(response["description"].is_string(), "{method} {path} {status}");
            let error = status.starts_with(['4', '5']);
            let schema = response.pointer("/content/application~1json/schema");
            assert!(
                !error || schema.is_some_and(|s| s["$ref"] == "#/components/schemas/Error"),
                "{method} {path} {status}"
            );
        }
    }
    // Every reference leads somewhere, and everything that can be referred to is.
    let mut referred = BTreeSet::new();
    references(&document, &document, &mut referred);
    for kind in ["parameters", "responses", "schemas"] {
        for name in document["components"][kind].as_object().unwrap().keys() {
            assert!(
                referred.contains(&format!("#/components/{kind}/{name}")),
                "nothing refers to {kind}/{name}"
            );
        }
    }
}

fn references(document: &Value, value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            if let Some(to) = fields.get("$ref") {
                resolve(document, value);
                found.insert(to.as_str().unwrap().to_owned());
            }
            fields
                .values()
                .for_each(|inner| references(document, inner, found));
        }
        Value::Array(items) => items.iter().for_each(|inner| references(document, inner, found)),
        _ => {}
    }
}

/// The checker itself: it must not let everything pass.
#[test]
fn the_checker_finds_faults() {
    let world = World::new(Options::default());
    let document = document(&world);
    let schema = serde_json::json!({"$ref": "#/components/schemas/Answer"});
    let good = world.get("/api/search?q=rain").json();
    let count = |value: &Value| {
        let mut found = Vec::new();
        faults(&document, &schema, value, "", &mut found);
        found.len()
    };
    assert_eq!(count(&good), 0);
    for (pointer, bad) in [
        ("/took_ms", serde_json::json!("1")),
        ("/took_ms", serde_json::json!(-1)),
        ("/more", serde_json::json!(null)),
        ("/query/mode", serde_json::json!("loud")),
        ("/hits/0/rank", serde_json::json!(0)),
        ("/hits/0/rank", serde_json::json!(1.5)),
        ("/hits/0/file", serde_json::json!({})),
        ("/hits/0/file/metadata", serde_json::json!({"title": 1})),
        ("/hits/0/file/tags", serde_json::json!([1])),
        (
            "/query",
            serde_json::json!({"q": "", "not": [], "like": null, "mode": "fused", "more": 1}),
        ),
    ] {
        let mut value = good.clone();
        *value.pointer_mut(pointer).unwrap() = bad;
        assert!(count(&value) > 0, "{pointer}");
    }
}

/// The value of a parameter's example, as it stands in a URL.
fn example(parameter: &Value) -> String {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let name = parameter["name"].as_str().unwrap();
    match &parameter["example"] {
        Value::Null => panic!("{name} has no example"),
        Value::Array(values) => {
            let pairs: Vec<String> = values
                .iter()
                .map(|v| format!("{name}={}", coded(&text(v))))
                .collect();
            pairs.join("&")
        }
        one => format!("{name}={}", coded(&text(one))),
    }
}

#[test]
fn what_is_described_is_taken_and_nothing_else() {
    let world = World::new(Options::default());
    let document = document(&world);
    let recording = wav(&samples(800));
    for (method, path, operation) in operations(&document) {
        let body: &[u8] = match (method.as_str(), path.as_str()) {
            ("POST", "/api/login") => b"{\"token\":\"x\"}",
            ("POST", _) => &recording,
            _ => b"",
        };
        let headers = if path == "/api/login" {
            "Content-Type: application/json\r\n"
        } else {
            ""
        };
        let target = path.replace("{id}", "1");
        let ask = |query: &str| world.ask(&method, &format!("{target}{query}"), headers, body);
        let answer = ask("");
        assert_eq!(answer.status, 200, "{method} {path}: {answer:?}");
        check(&document, &method, &path, &answer);
        let parameters = operation["parameters"].as_array().into_iter().flatten();
        let mut known = Vec::new();
        for parameter in parameters
            .map(|p| resolve(&document, p))
            .filter(|p| p["in"] == "query")
        {
            let name = parameter["name"].as_str().unwrap();
            known.push(name);
            // Some say something only together with others.
            let with = match name {
                "start" => "&like=1",
                _ => "",
            };
            let answer = ask(&format!("?{}{with}", example(parameter)));
            assert_eq!(answer.status, 200, "{method} {path} {name}: {answer:?}");
            check(&document, &method, &path, &answer);
            // Values outside of what is described are refused.
            let schema = &parameter["schema"];
            let bad = match (schema["type"].as_str().unwrap(), schema["minimum"].is_number()) {
                ("array", _) => format!("&{name}={}", "x".repeat(5000)),
                ("string", _) => format!("&{name}={}", "x".repeat(1001)),
                (_, true) => format!("&{name}=-1"),
                _ => format!("&{name}=x"),
            };
            let answer = ask(&format!("?{}", &bad[1..]));
            assert_eq!(answer.status, 400, "{method} {path} {bad}");
            check_error(&document, &method, &path, &answer);
        }
        for stranger in [
            "path", "file", "Q", "q%20", "limit[]", "token", "callback", "as", "format", "start", "q",
        ] {
            // The page keeps in its own address what is searched for.
            if known.contains(&stranger) || path == "/" {
                continue;
            }
            let answer = ask(&format!("?{stranger}=1"));
            assert_eq!(answer.status, 400, "{method} {path} {stranger}");
            if method != "HEAD" {
                assert!(
                    answer.error().contains(stranger.trim_end_matches("%20")),
                    "{answer:?}"
                );
            }
            check_error(&document, &method, &path, &answer);
        }
    }
}

/// A HEAD has the headers of an error without its sentence.
fn check_error(document: &Value, method: &str, path: &str, answer: &Answer) {
    if method == "HEAD" {
        assert!(!document["paths"][path]["head"]["responses"][answer.status.to_string()].is_null());
    } else {
        check(document, method, path, answer);
    }
}

/// Answers of many kinds, errors included, against their schemas.
#[test]
fn answers_fit_their_schemas() {
    let world = World::new(Options {
        upload_bytes: 10_000,
        ..Options::default()
    });
    let document = document(&world);
    let get = |path: &str, target: &str, status: u16| {
        let answer = world.get(target);
        assert_eq!(answer.status, status, "{target}: {answer:?}");
        check(&document, "GET", path, &answer);
    };
    for query in [
        "",
        "?q=rain",
        "?q=rain&mode=words",
        "?q=voice&mode=meaning&windows=all",
        "?like=1&start=5",
        "?q=zzz&mode=words",
    ] {
        get("/api/search", &format!("/api/search{query}"), 200);
        for format in ["csv", "json", "m3u"] {
            let and = if query.is_empty() { "?" } else { "&" };
            get(
                "/api/export",
                &format!("/api/export{query}{and}format={format}"),
                200,
            );
        }
    }
    get("/api/failures", "/api/failures", 200);
    get("/api/search", "/api/search?like=99", 404);
    get("/api/search", "/api/search?limit=0", 400);
    get("/api/search", "/api/search?q=breakdown", 500);
    for id in 1..=FILES {
        get("/api/files/{id}", &format!("/api/files/{id}"), 200);
        get("/api/files/{id}/audio", &format!("/api/files/{id}/audio"), 200);
        get(
            "/api/files/{id}/audio",
            &format!("/api/files/{id}/audio?as=wav"),
            200,
        );
    }
    get("/api/files/{id}", "/api/files/99", 404);
    get("/api/files/{id}", "/api/files/x", 400);
    let range = |range: &str, status: u16| {
        let answer = world.ask("GET", "/api/files/1/audio", &format!("Range: {range}\r\n"), b"");
        assert_eq!(answer.status, status);
        check(&document, "GET", "/api/files/{id}/audio", &answer);
    };
    range("bytes=0-9", 206);
    range("bytes=999999999-", 416);
    let post = |body: &[u8], headers: &str, status: u16| {
        let answer = world.ask("POST", "/api/search", headers, body);
        assert_eq!(answer.status, status, "{answer:?}");
        check(&document, "POST", "/api/search", &answer);
    };
    post(&wav(&samples(800)), "", 200);
    post(b"garbage", "", 422);
    post(b"", "", 422);
    post(&wav(&samples(800)), "Content-Encoding: gzip\r\n", 415);
    post(&wav(&samples(8000)), "", 413);
    post(&wav(&samples(800)), "Origin: http://evil.example\r\n", 403);
    world
        .store
        .broken
        .store(true, std::sync::atomic::Ordering::SeqCst);
    get("/health", "/health", 503);
    get("/api/library", "/api/library", 500);
    get("/api/failures", "/api/failures", 500);
    get("/metrics", "/metrics", 500);
}

#[test]
fn answers_with_a_token_fit_too() {
    let world = World::new(Options {
        token: Some("secret".into()),
        ..Options::default()
    });
    let document = document(&world);
    for (method, path, operation) in operations(&document) {
        let target = path.replace("{id}", "1");
        let open = operation["security"] == serde_json::json!([]);
        let answer = world.ask(&method, &target, "", b"");
        if method == "GET" {
            check(&document, &method, &path, &answer);
            assert_eq!(answer.status, if open { 200 } else { 401 }, "{path}");
            let answer = world.ask(&method, &target, "Authorization: Bearer secret\r\n", b"");
            assert_eq!(answer.status, 200, "{path}");
            check(&document, &method, &path, &answer);
        } else if !open {
            assert_eq!(answer.status, 401, "{method} {path}");
        }
    }
    let login = |body: &str| {
        let answer = world.ask(
            "POST",
            "/api/login",
            "Content-Type: application/json\r\n",
            body.as_bytes(),
        );
        check(&document, "POST", "/api/login", &answer);
        answer.status
    };
    assert_eq!(login("{\"token\":\"secret\"}"), 200);
    assert_eq!(login("{\"token\":\"wrong\"}"), 401);
    assert_eq!(login("{}"), 400);
}
